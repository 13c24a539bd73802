//! The programs whose driver calls fail or unwind.

use cuda_rt::Layout2;
use cuda_rt::{
    Captured, Device, DeviceBuffer, DeviceSlice, DeviceViewMut, Grid1, Handoff, Idle, Live, PinnedBuffer,
    Query, Result, Shared, Slot, Stream,
};
use device_kernels::{add, scale};

mod elsewhere;
mod run_time;

cuda_rt::streams! {
    pub Upload;
    pub Compute, priority = High;
    pub Download;
}

pub(crate) const LEN: usize = 96;
type View<'g, D> = DeviceViewMut<'g, f32, Captured<'g, Compute<D>>>;

pub(crate) struct Streams<D: Live> {
    pub(crate) upload: Stream<Upload<D>>,
    pub(crate) compute: Stream<Compute<D>>,
    pub(crate) download: Stream<Download<D>>,
}

impl<D: Live> Streams<D> {
    pub(crate) fn new(gpu: &Device<D>) -> Result<Self> {
        Ok(Self {
            upload: gpu.stream()?,
            compute: gpu.stream()?,
            download: gpu.stream()?,
        })
    }

    /// A buffer that was filled with `value` by an upload, and belongs to the compute stream.
    pub(crate) fn uploaded(&self, gpu: &Device<D>, value: u32) -> Result<DeviceBuffer<u32, Compute<D>>> {
        let source = self.upload.adopt(gpu.pinned_from(&[value; LEN])?)?;
        let buffer = self
            .upload
            .init_from_host(self.upload.alloc_uninit(LEN)?, &source)?;
        self.compute.acquire(self.upload.release(buffer)?)
    }

    /// A download in flight.
    pub(crate) fn downloading(
        &self,
        gpu: &Device<D>,
        buffer: DeviceBuffer<u32, Compute<D>>,
    ) -> Result<Handoff<PinnedBuffer<u32, Idle<D>>>> {
        let buffer = self.download.acquire(self.compute.release(buffer)?)?;
        let mut host = self.download.adopt(gpu.pinned(LEN)?)?;
        self.download.copy_to_host(&buffer, &mut host)?;
        self.download.release(host)
    }

    pub(crate) fn check(
        &self,
        gpu: &Device<D>,
        buffer: DeviceBuffer<u32, Compute<D>>,
        value: u32,
    ) -> Result<()> {
        let host = self.downloading(gpu, buffer)?.synchronize()?;
        assert_eq!(*host, [value; LEN]);
        Ok(())
    }
}

fn handoffs<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams {
        compute, download, ..
    } = streams;
    let a = streams.uploaded(gpu, 1)?;
    let b = streams.uploaded(gpu, 2)?;
    let copy = compute.init_from(compute.alloc_uninit(LEN)?, &b)?;
    let (a, b) = compute.release((a, b))?.split();
    let mut a = download.acquire(a)?;
    download.fill(&mut a, 3)?;
    drop(b);
    drop(download.release(a)?);
    streams.check(gpu, copy, 2)
}

fn lending<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams { compute, upload, .. } = streams;
    let mut buffer = streams.uploaded(gpu, 4)?;
    compute.lend(upload, &mut buffer, |view| upload.fill(view, 5))??;
    let mut host = compute.adopt(gpu.pinned(LEN)?)?;
    compute.copy_to_host(&buffer, &mut host)?;
    drop(buffer);
    // If memory was freed early, this buffer gets the same memory.
    let mut next = compute.alloc_zeroed::<u32>(LEN)?;
    compute.fill(&mut next, 6)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [5; LEN]);
    streams.check(gpu, next, 6)
}

/// Two streams and the owner read one buffer. The buffer is written and then dropped after that.
fn reading_in_common<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams {
        compute,
        upload,
        download,
    } = streams;
    let mut buffer = streams.uploaded(gpu, 60)?;
    let (mut here, there) = (
        compute.alloc_zeroed::<u32>(LEN)?,
        download.alloc_uninit::<u32>(LEN)?,
    );
    let mut host = upload.adopt(gpu.pinned(LEN)?)?;
    let there = compute.lend_ref(download, &buffer, |lent| -> Result<_> {
        let there = download.init_from(there, lent)?;
        compute.lend_all(upload, (&buffer, &mut here), |(buffer, mut here)| -> Result<()> {
            upload.copy(&buffer, &mut here)?;
            upload.copy_to_host(&buffer, &mut host)
        })??;
        Ok(there)
    })??;
    compute.fill(&mut buffer, 61)?;
    drop(buffer);
    let mut next = compute.alloc_zeroed::<u32>(LEN)?;
    compute.fill(&mut next, 62)?;
    let there = compute.acquire(download.release(there)?)?;
    streams.check(gpu, there, 60)?;
    streams.check(gpu, here, 60)?;
    assert_eq!(*upload.release(host)?.synchronize()?, [60; LEN]);
    Ok(())
}

/// The host and a stream read a download at once; the memory is downloaded to again.
fn reading_with_the_host<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams { compute, upload, .. } = streams;
    let idle = Shared::new(gpu.pinned_from(&[64; LEN])?);
    for round in 0..2 {
        let mut host = compute.adopt(gpu.pinned::<u32>(LEN)?)?;
        compute.copy_to_host(&streams.uploaded(gpu, 65 + round)?, &mut host)?;
        let shared = match round {
            0 => compute.share_lazily(host)?,
            _ => compute.share(host)?,
        };
        let lease = upload.lease(&shared)?;
        let copy = upload.init_from_host(upload.alloc_uninit(LEN)?, &lease.view())?;
        drop(lease);
        assert_eq!(**shared.host()?, [65 + round; LEN]);
        drop(compute.lease(&shared)?);
        if round == 0 {
            let mut host = compute.acquire(shared.reclaim().expect("no lease is out"))?;
            compute.copy_to_host(&streams.uploaded(gpu, 70)?, &mut host)?;
            assert_eq!(*compute.release(host)?.synchronize()?, [70; LEN]);
        }
        streams.check(gpu, compute.acquire(upload.release(copy)?)?, 65 + round)?;
    }
    let lease = upload.lease(&idle)?;
    let copy = upload.init_from_host(upload.alloc_uninit(LEN)?, &lease.view())?;
    assert_eq!(**idle.host()?, [64; LEN]);
    drop(lease);
    idle.reclaim().expect("no lease is out").synchronize()?.fill(0);
    streams.check(gpu, compute.acquire(upload.release(copy)?)?, 64)
}

/// Bundles that never leave the stream that shared them.
fn sharing_on_one_stream<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams { compute, .. } = streams;
    let mut split = streams.uploaded(gpu, 71)?;
    let rest = split.split_off(LEN / 2);
    let parts = compute.share_lazily((split, rest, compute.adopt(gpu.pinned::<u32>(LEN)?)?))?;
    let nested = compute.share(compute.lease(&parts)?)?;
    let lease = compute.lease(&nested)?;
    let half = compute.init_from(compute.alloc_uninit(LEN / 2)?, &lease.view().0)?;
    drop((parts, nested, lease));
    let mut next = compute.alloc_zeroed::<u32>(LEN)?;
    compute.fill(&mut next, 72)?;
    let mut host = [0; LEN / 2];
    compute.copy_to_slice(&half, &mut host)?;
    assert_eq!(host, [71; LEN / 2]);
    Ok(())
}

fn sharing<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams {
        compute,
        upload,
        download,
    } = streams;
    let shared = compute.share(streams.uploaded(gpu, 7)?)?;
    let mut hosts = (upload.adopt(gpu.pinned(LEN)?)?, download.adopt(gpu.pinned(LEN)?)?);
    {
        let (one, two) = (upload.lease(&shared)?, download.lease(&shared)?);
        upload.copy_to_host(&one.view(), &mut hosts.0)?;
        download.copy_to_host(&two.view(), &mut hosts.1)?;
    }
    let other = shared.clone();
    drop(other);
    let handoff = shared.reclaim().expect("no lease is out");
    let mut buffer = compute.acquire(handoff)?;
    compute.fill(&mut buffer, 8)?;
    streams.check(gpu, buffer, 8)?;
    assert_eq!(*upload.release(hosts.0)?.synchronize()?, [7; LEN]);
    assert_eq!(*download.release(hosts.1)?.synchronize()?, [7; LEN]);
    // Dropped after its readers.
    let shared = compute.share(streams.uploaded(gpu, 9)?)?;
    drop(download.lease(&shared)?);
    Ok(())
}

fn slots<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams {
        compute, download, ..
    } = streams;
    let device = compute
        .release(compute.alloc_zeroed::<u32>(LEN)?)?
        .synchronize()?;
    let mut slot = Slot::new((device, gpu.pinned::<u32>(LEN)?));
    for step in 1..4 {
        slot.on(compute, |(device, _)| compute.fill(device, step))??;
        slot.on(download, |(device, host)| download.copy_to_host(device, host))??;
        slot.host(|(_, host)| assert_eq!(**host, [step; LEN]))?;
    }
    drop(slot.into_handoff()?);
    Ok(())
}

fn graphs<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams { compute, .. } = streams;
    let bundle = (streams.uploaded(gpu, 10)?, compute.alloc_zeroed::<u32>(LEN)?);
    let mut graph = compute.capture(bundle, |stream, (a, mut b)| {
        let fork = stream.fork::<Download<D>>()?;
        let mut temporary = stream.alloc_zeroed::<u32>(LEN)?;
        stream.copy(&a, &mut temporary)?;
        let temporary = fork.acquire(stream.release(temporary)?)?;
        stream.lend(&fork, &mut b, |b| fork.copy(&temporary, b))?
    })?;
    graph.launch(compute)?;
    {
        let (mut a, _) = graph.views();
        compute.fill(&mut a, 11)?;
    }
    graph.launch(compute)?;
    let (a, b) = graph.into_inner();
    streams.check(gpu, b, 11)?;
    streams.check(gpu, a, 11)
}

/// The host reads what a graph downloaded, and writes what it uploads.
fn graphs_and_the_host<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams { compute, .. } = streams;
    let pinned = || compute.adopt(gpu.pinned::<u32>(LEN)?);
    let bundle = (pinned()?, compute.alloc_zeroed::<u32>(LEN)?, pinned()?);
    let mut graph = compute.capture(bundle, |stream, (input, mut data, mut output)| {
        stream.copy_to_device(&input, &mut data)?;
        let fork = stream.fork::<Download<D>>()?;
        stream.lend_all(&fork, (&data, &mut output), |(data, mut output)| {
            fork.copy_to_host(&data, &mut output)
        })?
    })?;
    for value in 73..75 {
        graph.host(|(mut input, ..)| input.as_mut_slice().fill(value))?;
        graph.launch(compute)?;
        graph.host(|(.., output)| assert_eq!(output.as_slice(), [value; LEN]))?;
    }
    Ok(())
}

/// A launch, a fill and the whole bundle change while launches of the graph are pending.
fn updates<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams { compute, .. } = streams;
    fn body<'g, D: Live>(
        stream: &'g Stream<Captured<'g, Compute<D>>>,
        (mut a, mut b): (View<'g, D>, View<'g, D>),
        (value, factor): (f32, f32),
    ) -> Result<()> {
        let fork = stream.fork::<Download<D>>()?;
        stream.lend(&fork, &mut a, |a| fork.fill(a, value))??;
        scale(stream, Grid1::covering(LEN), &a, &mut b, factor)
    }
    let bundle = || -> Result<_> { Ok((compute.alloc_zeroed::<f32>(LEN)?, compute.alloc_zeroed(LEN)?)) };
    let mut hosts = Vec::new();
    let mut read = |b: &DeviceSlice<f32, Compute<D>>| -> Result<()> {
        let mut host = compute.adopt(gpu.pinned(LEN)?)?;
        compute.copy_to_host(b, &mut host)?;
        hosts.push(host);
        Ok(())
    };
    let mut graph = compute.capture(bundle()?, |stream, pair| body(stream, pair, (1.0, 2.0)))?;
    graph.launch(compute)?;
    read(&graph.views().1)?;
    graph.update(|stream, pair| body(stream, pair, (1.0, 3.0)))?;
    graph.launch(compute)?;
    read(&graph.views().1)?;
    graph.update(|stream, pair| body(stream, pair, (2.0, 3.0)))?;
    graph.launch(compute)?;
    let old = graph.replace(bundle()?, |stream, pair| body(stream, pair, (2.0, 4.0)))?;
    read(&old.1)?;
    drop(old);
    graph.launch(compute)?;
    read(&graph.into_inner().1)?;
    for (host, expected) in hosts.into_iter().zip([2.0, 3.0, 6.0, 8.0]) {
        assert_eq!(*compute.release(host)?.synchronize()?, [expected; LEN]);
    }
    Ok(())
}

fn pinned<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let mut uploaded = Vec::new();
    for value in 20..24 {
        uploaded.push((streams.uploaded(gpu, value)?, value));
    }
    uploaded
        .into_iter()
        .try_for_each(|(buffer, value)| streams.check(gpu, buffer, value))
}

fn pools_and_marks<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let pool = gpu.stream_pool(2)?;
    let start = streams.compute.record_timed_event()?;
    let mut handoff = pool.with(|stream| {
        let buffer = stream.alloc_uninit::<u32>(LEN)?;
        stream.release(stream.init_filled(buffer, 12)?)
    })?;
    let buffer = loop {
        match handoff.query()? {
            Query::Done(idle) => break streams.compute.adopt(idle)?,
            Query::Pending(again) => handoff = again,
        }
    };
    streams.check(gpu, buffer, 12)?;
    let end = streams.compute.record_timed_event()?.synchronize()?;
    end.elapsed_ms_since(&start.synchronize()?)?;
    gpu.memory_info()?;
    Ok(())
}

/// Halves of device memory and of pinned memory, on two streams: dropped in both orders, dropped in
/// transit, and joined.
fn parts<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams {
        compute, download, ..
    } = streams;
    for round in 0..3 {
        let mut first = streams.uploaded(gpu, 30 + round)?;
        let second = first.split_off(LEN / 2);
        let second = download.acquire(compute.release(second)?)?;
        let mut host = gpu.pinned::<u32>(LEN)?;
        let end = host.split_off(LEN / 2);
        let (mut start, mut end) = (compute.adopt(host)?, download.adopt(end)?);
        compute.copy_to_host(&first, &mut start)?;
        download.copy_to_host(&second, &mut end)?;
        match round {
            0 => drop((first, second)),
            1 => drop((download.release(second)?, compute.release(first)?)),
            _ => {
                let second = compute.acquire(download.release(second)?)?;
                streams.check(gpu, first.join(second)?, 32)?;
            }
        }
        let start = compute.release(start)?.synchronize()?;
        let host = start.join(download.release(end)?.synchronize()?)?;
        assert_eq!(*host, [30 + round; LEN]);
    }
    Ok(())
}

/// Rows of a frame, to the device, within it and back, in one stream's order.
fn rows<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams { compute, .. } = streams;
    let frame = Layout2::packed(4, 4).with_stride(6);
    let host = compute.adopt(gpu.pinned_from(&[5u32; 22])?)?;
    let mut device = compute.alloc_zeroed::<u32>(22)?;
    compute.copy_rows_to_device(&host, frame, &mut device, frame)?;
    let packed = compute.init_from_rows(compute.alloc_uninit(16)?, &device, frame)?;
    compute.copy_rows(&packed, Layout2::packed(4, 4), &mut device, frame)?;
    let mut back = compute.adopt(gpu.pinned_from(&[0u32; 16])?)?;
    compute.copy_rows_to_host(&device, frame, &mut back, Layout2::packed(4, 4))?;
    assert_eq!(*compute.release(back)?.synchronize()?, [5; 16]);
    Ok(())
}

fn joins_and_markers<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams {
        upload,
        compute,
        download,
    } = streams;
    let [a, b] = [40, 41].map(|value| upload.release(upload.init_filled(upload.alloc_uninit(LEN)?, value)?));
    let c = download.release(download.init_filled(download.alloc_uninit::<u32>(LEN)?, 42)?)?;
    let joined = Handoff::join((vec![a?, b?], c));
    upload.wait_event(&download.record_event()?)?;
    let (ab, c) = compute.acquire(joined)?;
    for (buffer, value) in ab.into_iter().chain([c]).zip(40..) {
        streams.check(gpu, buffer, value)?;
    }
    let dropped = [upload.release(upload.alloc_uninit::<u32>(LEN)?)?];
    drop(Handoff::join(dropped));
    Ok(())
}

/// A lease moves with a buffer into a graph and out again, and is dropped in transit. Then the
/// writer gets its bundle back.
fn leases_in_bundles<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams {
        compute, download, ..
    } = streams;
    let shared = compute.share(streams.uploaded(gpu, 50)?)?;
    let bundle = (download.lease(&shared)?, download.alloc_zeroed::<u32>(LEN)?);
    let bundle = compute.acquire(download.release(bundle)?)?;
    let mut graph = compute.capture(bundle, |stream, (source, mut out)| stream.copy(&source, &mut out))?;
    graph.launch(compute)?;
    let (lease, out) = graph.into_inner();
    let moved = download.acquire(compute.release(lease)?)?;
    let mut host = download.adopt(gpu.pinned(LEN)?)?;
    download.copy_to_host(&moved.view(), &mut host)?;
    drop(download.release(moved)?);
    let mut buffer = compute.acquire(shared.reclaim().expect("no lease is out"))?;
    compute.fill(&mut buffer, 51)?;
    streams.check(gpu, buffer, 51)?;
    streams.check(gpu, out, 50)?;
    assert_eq!(*download.release(host)?.synchronize()?, [50; LEN]);
    Ok(())
}

/// Host functions between copies, in a stream and in a graph whose closure is replaced. Each
/// function asserts what it gets, and a function that panics loses the device.
fn host_functions<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    fn adds(expected: u32, more: u32) -> impl FnMut(&mut [u32]) {
        move |values| {
            assert_eq!(*values, [expected; LEN]);
            values.iter_mut().for_each(|value| *value += more);
        }
    }
    let Streams { compute, .. } = streams;
    let mut data = streams.uploaded(gpu, 60)?;
    let mut host = compute.adopt(gpu.pinned(LEN)?)?;
    compute.copy_to_host(&data, &mut host)?;
    compute.host_fn(&mut host, adds(60, 1))?;
    compute.copy_to_device(&host, &mut data)?;
    // If the block were reused early, this buffer would get it.
    drop(host);
    let mut host = compute.adopt(gpu.pinned_from(&[0; LEN])?)?;
    compute.copy_to_host(&data, &mut host)?;
    let mut graph = compute.capture((data, host), |stream, (mut data, mut host)| {
        stream.host_fn(&mut host, adds(61, 1))?;
        stream.copy_to_device(&host, &mut data)
    })?;
    graph.launch(compute)?;
    graph.update(|stream, (mut data, mut host)| {
        stream.host_fn(&mut host, adds(62, 2))?;
        stream.copy_to_device(&host, &mut data)
    })?;
    graph.launch(compute)?;
    let (data, host) = graph.into_inner();
    assert_eq!(*compute.release(host)?.synchronize()?, [64; LEN]);
    streams.check(gpu, data, 64)
}

/// Kernels that return their elements, into memory that nothing wrote: on a stream, as temporaries
/// of a graph, and in a graph that is updated.
fn returned<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    fn sums<'g, D: Live>(
        stream: &Stream<Captured<'g, Compute<D>>>,
        (one, mut two, mut out): (View<'g, D>, View<'g, D>, View<'g, D>),
        grid: Grid1,
    ) -> Result<()> {
        add(stream, grid, &one, &one, &mut two)?;
        add(stream, grid, &two, &one, &mut out)
    }

    let Streams { compute, .. } = streams;
    let (one, grid) = (compute.alloc_from_slice(&[1.0; LEN])?, Grid1::covering(LEN));
    // Memory of a launch that is refused, for whatever reason, is used again.
    let two = add(
        compute,
        Grid1::covering(1),
        &one,
        &one,
        compute.alloc_uninit(LEN)?,
    )
    .or_else(|refused| add(compute, grid, &one, &one, refused.value))
    .or_else(|refused| add(compute, grid, &one, &one, refused.value))?;
    assert_eq!(compute.copy_to_vec(&two)?, [2.0; LEN]);

    let out = compute.init_filled(compute.alloc_uninit(LEN)?, 0.0)?;
    let mut graph = compute.capture((one, two, out), |stream, (one, two, mut out)| {
        let three = add(stream, grid, &two, &one, stream.alloc_uninit(LEN)?)?;
        add(stream, grid, &two, &three, &mut out)
    })?;
    graph.launch(compute)?;
    let (one, two, out) = graph.into_inner();
    let host = compute.adopt(gpu.pinned_uninit(LEN)?)?;
    let host = compute.init_host_from(host, &out)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [5.0; LEN]);

    let mut graph = compute.capture((one, two, out), |stream, views| sums(stream, views, grid))?;
    graph.update(|stream, views| sums(stream, views, Grid1::covering(LEN + 40)))?;
    graph.launch(compute)?;
    let (_, _, out) = graph.into_inner();
    assert_eq!(compute.copy_to_vec(&out)?, [3.0; LEN]);
    Ok(())
}

fn accounts<D: Live>(gpu: &Device<D>) -> Result<()> {
    gpu.reset_memory_peaks()?;
    gpu.set_release_threshold(0)?;
    gpu.trim(0)?;
    gpu.memory_pool_stats()?;
    gpu.trim_pinned(0);
    assert!(gpu.pinned_stats().blocks_free <= gpu.pinned_stats().blocks_held);
    Ok(())
}

pub(crate) fn program<D: Live>(gpu: &Device<D>) -> Result<()> {
    let streams = Streams::new(gpu)?;
    handoffs(gpu, &streams)?;
    lending(gpu, &streams)?;
    reading_in_common(gpu, &streams)?;
    sharing(gpu, &streams)?;
    reading_with_the_host(gpu, &streams)?;
    sharing_on_one_stream(gpu, &streams)?;
    slots(gpu, &streams)?;
    graphs(gpu, &streams)?;
    graphs_and_the_host(gpu, &streams)?;
    updates(gpu, &streams)?;
    pinned(gpu, &streams)?;
    pools_and_marks(gpu, &streams)?;
    parts(gpu, &streams)?;
    rows(gpu, &streams)?;
    joins_and_markers(gpu, &streams)?;
    leases_in_bundles(gpu, &streams)?;
    host_functions(gpu, &streams)?;
    returned(gpu, &streams)?;
    elsewhere::program(gpu, &streams)?;
    run_time::program(gpu, &streams)?;
    accounts(gpu)?;
    streams.compute.synchronize()
}
