//! Measures the throughput of a copy-bound pipeline with raw calls, with handoffs by hand and with
//! [`Pipeline`], on the first GPU: `cargo bench -p cuda-handoff --bench copy_bound`.
//!
//! Each item is copied from pinned memory to the device, once within the device, and back to pinned
//! memory. Upload, compute and download have a stream each, and N buffers at each boundary. The
//! host reads and writes no item, so the copy engines are the bound. Host work between two copies
//! shows as a gap.
//!
//! All ways, and the copies alone, are measured in alternating rounds of one run. The figures are
//! medians over the rounds; ratios are taken within a round. The time runs from the first item's
//! fill to the end of the last item's sink, after memory has been allocated. The results of each
//! way are checked once, before the measurement.
//!
//! Prints a table, and the same figures as one line of JSON. Without a GPU it measures nothing, and
//! says so. With `--simulated` it checks the typed ways on the simulated device, and measures
//! nothing.
#![allow(clippy::disallowed_methods, reason = "raw calls are what is compared")]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cuda_rt::pipeline::{Pipeline, PipelineError};
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Bundle, Device, DeviceBuffer, Handoff, Idle, Live, PinnedBuffer, Result, Stream};
use cudarc::driver::sys::{self, CUresult};

cuda_rt::streams! { Upload; Compute; Download; }

/// Measured rounds.
const ROUNDS: usize = 15;
const WARM_UP: usize = 2;

/// The number and size of the items.
#[derive(Clone, Copy)]
struct Load {
    items: u32,
    /// Elements of an item.
    len: usize,
}

/// 3 GiB each way.
const LOAD: Load = Load {
    items: 96,
    len: (32 << 20) / size_of::<u32>(),
};

/// The load of the check, which takes the host longer than the copies.
const CHECKED: Load = Load { items: 12, ..LOAD };

impl Load {
    /// The bytes of all items.
    fn bytes(self) -> usize {
        self.items as usize * self.item_bytes()
    }

    fn item_bytes(self) -> usize {
        self.len * size_of::<u32>()
    }
}

/// The host's work on an item at both ends.
#[derive(Clone, Copy)]
enum Ends {
    /// No work, for the measurement.
    Idle,
    /// Write every element, and check that it comes back.
    Checked,
}

impl Ends {
    fn element(item: u32, index: usize) -> u32 {
        (item + 1).wrapping_mul(0x9E37_79B9) ^ index as u32
    }

    fn fill(self, item: u32, data: &mut [u32]) {
        if let Self::Checked = self {
            for (index, element) in data.iter_mut().enumerate() {
                *element = Self::element(item, index);
            }
        }
    }

    fn sink(self, item: u32, data: &[u32]) {
        if let Self::Checked = self {
            let wrong = (0..data.len()).find(|&index| data[index] != Self::element(item, index));
            assert_eq!(wrong, None, "item {item} did not come back as it was");
        }
    }
}

/// The pipeline of raw calls, on the three streams of [`Raw`]. One thread enqueues all work, and
/// waits only for pinned slots.
struct RawPipeline<'a> {
    raw: &'a Raw,
    slots: Vec<RawSlot>,
}

struct RawSlot {
    pinned_in: NonNull<u32>,
    device_in: u64,
    device_out: u64,
    pinned_out: NonNull<u32>,
    uploaded: sys::CUevent,
    computed: sys::CUevent,
    downloaded: sys::CUevent,
}

impl<'a> RawPipeline<'a> {
    fn new(raw: &'a Raw, load: Load, buffers: usize) -> Self {
        let bytes = load.item_bytes();
        let slot = |_| RawSlot {
            pinned_in: raw.pinned(bytes),
            device_in: raw.device(bytes),
            device_out: raw.device(bytes),
            pinned_out: raw.pinned(bytes),
            uploaded: raw.event(),
            computed: raw.event(),
            downloaded: raw.event(),
        };
        Self {
            raw,
            slots: (0..buffers).map(slot).collect(),
        }
    }

    fn run(&self, load: Load, ends: Ends) -> Duration {
        let Self { raw, slots } = self;
        let bytes = load.item_bytes();
        let started = Instant::now();
        for item in 0..load.items {
            let slot = &slots[item as usize % slots.len()];
            raw.synchronize(slot.uploaded);
            // SAFETY: the slot has `len` elements, which were zeroed at first. The last upload from
            // them is over, so nothing else uses them.
            ends.fill(item, unsafe {
                slice::from_raw_parts_mut(slot.pinned_in.as_ptr(), load.len)
            });

            // An event that was never recorded counts as done, so the first use of each slot does
            // not wait.
            raw.wait(raw.upload, slot.computed);
            raw.copy_to_device(slot.device_in, slot.pinned_in, bytes);
            raw.record(slot.uploaded, raw.upload);

            raw.wait(raw.compute, slot.uploaded);
            raw.wait(raw.compute, slot.downloaded);
            raw.copy(slot.device_out, slot.device_in, bytes);
            raw.record(slot.computed, raw.compute);

            // The sink comes after the upload is enqueued, so the upload does not wait for the
            // sink.
            if let Some(earlier) = item.checked_sub(slots.len() as u32) {
                self.sink(earlier, load, ends);
            }
            raw.wait(raw.download, slot.computed);
            raw.copy_to_host(slot.pinned_out, slot.device_out, bytes);
            raw.record(slot.downloaded, raw.download);
        }
        for item in load.items - slots.len() as u32..load.items {
            self.sink(item, load, ends);
        }
        started.elapsed()
    }

    fn sink(&self, item: u32, load: Load, ends: Ends) {
        let slot = &self.slots[item as usize % self.slots.len()];
        self.raw.synchronize(slot.downloaded);
        // SAFETY: the slot has `len` elements. The last download to them is over, and the next
        // download is not enqueued yet.
        ends.sink(item, unsafe {
            slice::from_raw_parts(slot.pinned_out.as_ptr(), load.len)
        });
    }
}

/// The same pipeline, with handoffs.
struct ByHand<D: Live> {
    upload: Stream<Upload<D>>,
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
    pinned_in: Slots<PinnedBuffer<u32, Idle<D>>>,
    device_in: Slots<DeviceBuffer<u32, Idle<D>>>,
    device_out: Slots<DeviceBuffer<u32, Idle<D>>>,
    pinned_out: Slots<PinnedBuffer<u32, Idle<D>>>,
}

/// The slots of one boundary. The next slot to use is in front.
struct Slots<R: Bundle>(VecDeque<Handoff<R>>);

impl<R: Bundle> Slots<R> {
    fn new(buffers: usize, slot: impl Fn() -> Result<Handoff<R>>) -> Result<Self> {
        Ok(Self((0..buffers).map(|_| slot()).collect::<Result<_>>()?))
    }

    fn next(&mut self) -> Handoff<R> {
        self.0.pop_front().expect("each that is taken comes back")
    }

    fn back(&mut self, slot: Handoff<R>) {
        self.0.push_back(slot);
    }
}

impl<D: Live> ByHand<D> {
    fn new(gpu: &Device<D>, load: Load, buffers: usize) -> Result<Self> {
        let compute = gpu.stream::<Compute<D>>()?;
        let pinned = || Slots::new(buffers, || Ok(Handoff::ready(gpu.pinned(load.len)?)));
        let device = || Slots::new(buffers, || compute.release(compute.alloc_zeroed(load.len)?));
        Ok(Self {
            pinned_in: pinned()?,
            device_in: device()?,
            device_out: device()?,
            pinned_out: pinned()?,
            upload: gpu.stream()?,
            download: gpu.stream()?,
            compute,
        })
    }

    fn run(&mut self, load: Load, ends: Ends) -> Result<Duration> {
        let buffers = self.pinned_out.0.len() as u32;
        let started = Instant::now();
        for item in 0..load.items {
            let mut pinned = self.pinned_in.next().synchronize()?;
            ends.fill(item, &mut pinned);

            let from = self.upload.adopt(pinned)?;
            let mut to = self.upload.acquire(self.device_in.next())?;
            self.upload.copy_to_device(&from, &mut to)?;
            let (pinned, uploaded) = self.upload.release((from, to))?.split();
            self.pinned_in.back(pinned);

            let from = self.compute.acquire(uploaded)?;
            let mut to = self.compute.acquire(self.device_out.next())?;
            self.compute.copy(&from, &mut to)?;
            let (uploaded, computed) = self.compute.release((from, to))?.split();
            self.device_in.back(uploaded);

            let pinned = self.pinned_out.next().synchronize()?;
            if let Some(earlier) = item.checked_sub(buffers) {
                ends.sink(earlier, &pinned);
            }
            let from = self.download.acquire(computed)?;
            let mut to = self.download.adopt(pinned)?;
            self.download.copy_to_host(&from, &mut to)?;
            let (computed, pinned) = self.download.release((from, to))?.split();
            self.device_out.back(computed);
            self.pinned_out.back(pinned);
        }
        for item in load.items - buffers..load.items {
            let pinned = self.pinned_out.next().synchronize()?;
            ends.sink(item, &pinned);
            self.pinned_out.back(Handoff::ready(pinned));
        }
        Ok(started.elapsed())
    }
}

/// The same pipeline, as a [`Pipeline`]. The second time is the time of the whole `run`, which
/// includes the start and end of its threads and the release of its memory.
fn pipeline<D: Live>(
    gpu: &Device<D>,
    load: Load,
    buffers: usize,
    ends: Ends,
) -> Result<(Duration, Duration), PipelineError> {
    let started = OnceLock::new();
    let mut ended = None;
    let ready = Pipeline::new(gpu, buffers)
        .untimed()
        .source(load.len, 0..load.items, |item, pinned: &mut [u32]| {
            started.get_or_init(Instant::now);
            ends.fill(*item, pinned);
            Ok(pinned.len())
        })
        .upload::<Upload<D>>()
        .stage::<Compute<D>>(|stream, _item, input, output| stream.copy(input, output))
        .download::<Download<D>>()
        .sink(|item, data| {
            ends.sink(item, data);
            ended = Some(Instant::now());
            Ok(())
        });
    let before = Instant::now();
    let report = ready.run()?;
    let whole = before.elapsed();
    assert_eq!(report.items, u64::from(load.items));
    let started = started.get().expect("there are items");
    Ok((ended.expect("all came back") - *started, whole))
}

/// One measured way, and its time in each round, in s.
struct Row {
    name: String,
    /// The row to compare with: the raw calls with the same number of buffers.
    raw: usize,
    samples: Vec<f64>,
}

/// The rows of the copies alone. Four rows of ways follow for each number of buffers.
const UPLOADS: usize = 0;
const DOWNLOADS: usize = 1;
const BOTH: usize = 2;

fn report(rows: &[Row], load: Load) {
    let gb = load.bytes() as f64 / 1e9;
    let mut json = Vec::new();
    println!(
        "{:<40} {:>9} {:>20} {:>9} {:>9} {:>9}",
        "", "ms", "[p10, p90]", "GB/s", "to raw", "to bound"
    );
    for row in rows {
        let against = |base: &dyn Fn(usize) -> f64| {
            let of = |round: usize| row.samples[round] / base(round);
            median((0..row.samples.len()).map(of).collect())
        };
        let to_raw = against(&|round| rows[row.raw].samples[round]);
        // All bytes go in both directions, so no pipeline is faster than the slower direction
        // alone.
        let to_bound = against(&|round| rows[UPLOADS].samples[round].max(rows[DOWNLOADS].samples[round]));
        let [low, middle, high] = [0.1, 0.5, 0.9].map(|q| quantile(row.samples.clone(), q) * 1e3);
        println!(
            "{:<40} {middle:>9.2} [{low:>8.2}, {high:>8.2}] {:>9.2} {to_raw:>9.3} {to_bound:>9.3}",
            row.name,
            gb / middle * 1e3
        );
        json.push(format!(
            r#"{{"way":"{}","median_ms":{middle:.3},"p10_ms":{low:.3},"p90_ms":{high:.3},"gb_per_s":{:.3},"to_raw":{to_raw:.4},"to_bound":{to_bound:.4}}}"#,
            row.name,
            gb / middle * 1e3
        ));
    }
    println!("[{}]", json.join(","));
}

fn quantile(mut samples: Vec<f64>, q: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(q * (samples.len() - 1) as f64) as usize]
}

fn median(samples: Vec<f64>) -> f64 {
    quantile(samples, 0.5)
}

const BUFFERS: [usize; 2] = [2, 3];

fn measure<D: Live>(gpu: &Device<D>) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let raw = Raw::new();
    println!(
        "{}: {} items of {} MiB, {ROUNDS} rounds",
        gpu.properties().name,
        LOAD.items,
        LOAD.item_bytes() >> 20
    );
    let row = |name: &str, raw| Row {
        name: name.into(),
        raw,
        samples: Vec::new(),
    };
    let mut rows = vec![
        row("uploads alone", UPLOADS),
        row("downloads alone", DOWNLOADS),
        row("uploads and downloads, of no order", BOTH),
    ];
    let mut ways = Vec::new();
    for buffers in BUFFERS {
        let by_raw = RawPipeline::new(&raw, LOAD, buffers);
        let mut by_hand = ByHand::new(gpu, LOAD, buffers)?;
        by_raw.run(CHECKED, Ends::Checked);
        by_hand.run(CHECKED, Ends::Checked)?;
        pipeline(gpu, CHECKED, buffers, Ends::Checked)?;
        let first = rows.len();
        for name in ["raw", "handoffs by hand", "Pipeline", "Pipeline, all of run"] {
            rows.push(row(&format!("{name}, N = {buffers}"), first));
        }
        ways.push((first, buffers, by_raw, by_hand));
    }
    println!("every way brings back what it was given");

    for round in 0..WARM_UP + ROUNDS {
        let mut add = |row: usize, time: Duration| {
            if round >= WARM_UP {
                rows[row].samples.push(time.as_secs_f64());
            }
        };
        let slot = &ways[0].2.slots[0];
        add(UPLOADS, raw.copies_alone(slot, LOAD, true, false));
        add(DOWNLOADS, raw.copies_alone(slot, LOAD, false, true));
        add(BOTH, raw.copies_alone(slot, LOAD, true, true));
        for (first, buffers, by_raw, by_hand) in &mut ways {
            // Each way is first as often as last.
            for i in 0..3 {
                match (round + i) % 3 {
                    0 => add(*first, by_raw.run(LOAD, Ends::Idle)),
                    1 => add(*first + 1, by_hand.run(LOAD, Ends::Idle)?),
                    _ => {
                        let (items, whole) = pipeline(gpu, LOAD, *buffers, Ends::Idle)?;
                        add(*first + 2, items);
                        add(*first + 3, whole);
                    }
                }
            }
        }
    }
    report(&rows, LOAD);
    Ok(())
}

fn check_simulated<D: Live>(gpu: &Device<D>) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let load = Load { items: 7, len: 1000 };
    for buffers in BUFFERS {
        let mut by_hand = ByHand::new(gpu, load, buffers)?;
        by_hand.run(load, Ends::Checked)?;
        by_hand.run(load, Ends::Checked)?;
        pipeline(gpu, load, buffers, Ends::Checked)?;
    }
    assert!(gpu.races().is_empty());
    println!(
        "{}: the typed ways bring back what they were given; nothing was timed",
        gpu.properties().name
    );
    Ok(())
}

fn main() {
    if std::env::args().any(|argument| argument == "--simulated") {
        let checked = Device::simulated(SimConfig::default(), |gpu| check_simulated(&gpu));
        return checked.expect("a simulated device").expect("no call fails");
    }
    match Device::with_gpu(0, |gpu| measure(&gpu)) {
        Ok(measured) => measured.expect("no call fails"),
        Err(why) if std::env::var_os("CUDA_RT_REQUIRE_GPU").is_some() => panic!("{why}"),
        Err(why) => println!("SKIPPED, nothing was measured: {why}"),
    }
}

#[track_caller]
fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// Raw streams, which do not wait for the default stream, in the primary context that the typed API
/// uses too.
///
/// All objects that it creates live as long as the process, and belong to the context that is
/// current on the calling thread. The SAFETY comments below call these objects live.
struct Raw {
    upload: sys::CUstream,
    compute: sys::CUstream,
    download: sys::CUstream,
}

impl Raw {
    fn new() -> Self {
        // SAFETY: the call has no preconditions.
        ok(unsafe { sys::cuInit(0) });
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: the pointer is to a live device number.
        ok(unsafe { sys::cuDeviceGet(&mut device, 0) });
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) });
        // SAFETY: the context was retained, and is never released.
        ok(unsafe { sys::cuCtxSetCurrent(context) });
        let stream = || {
            let mut stream = ptr::null_mut();
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            // SAFETY: the pointer is to a live handle.
            ok(unsafe { sys::cuStreamCreate(&mut stream, flags) });
            stream
        };
        Self {
            upload: stream(),
            compute: stream(),
            download: stream(),
        }
    }

    /// Allocates zeroed pinned memory.
    fn pinned(&self, bytes: usize) -> NonNull<u32> {
        let mut address: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a live address.
        ok(unsafe { sys::cuMemHostAlloc(&mut address, bytes, 0) });
        let address = NonNull::new(address).expect("allocated").cast::<u32>();
        // SAFETY: the memory was allocated just now with `bytes` bytes, and is at least
        // page-aligned.
        unsafe { address.cast::<u8>().write_bytes(0, bytes) };
        address
    }

    fn device(&self, bytes: usize) -> u64 {
        let mut address = 0;
        // SAFETY: the pointer is to a live address.
        ok(unsafe { sys::cuMemAlloc_v2(&mut address, bytes) });
        address
    }

    fn event(&self) -> sys::CUevent {
        let mut event = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuEventCreate(&mut event, flags) });
        event
    }

    fn record(&self, event: sys::CUevent, stream: sys::CUstream) {
        // SAFETY: the handles are live.
        ok(unsafe { sys::cuEventRecord(event, stream) });
    }

    fn wait(&self, stream: sys::CUstream, event: sys::CUevent) {
        // SAFETY: the handles are live.
        ok(unsafe { sys::cuStreamWaitEvent(stream, event, 0) });
    }

    fn synchronize(&self, event: sys::CUevent) {
        // SAFETY: the handles are live.
        ok(unsafe { sys::cuEventSynchronize(event) });
    }

    fn copy_to_device(&self, to: u64, from: NonNull<u32>, bytes: usize) {
        // SAFETY: both have that many bytes.
        ok(unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), bytes, self.upload) });
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) {
        // SAFETY: as above.
        ok(unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.compute) });
    }

    fn copy_to_host(&self, to: NonNull<u32>, from: u64, bytes: usize) {
        // SAFETY: as above.
        ok(unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_ptr().cast(), from, bytes, self.download) });
    }

    /// The copies of all items, in one direction or both, without waits between them.
    fn copies_alone(&self, slot: &RawSlot, load: Load, up: bool, down: bool) -> Duration {
        let bytes = load.item_bytes();
        let started = Instant::now();
        for _ in 0..load.items {
            if up {
                self.copy_to_device(slot.device_in, slot.pinned_in, bytes);
            }
            if down {
                self.copy_to_host(slot.pinned_out, slot.device_out, bytes);
            }
        }
        for stream in [self.upload, self.download] {
            // SAFETY: the handles are live.
            ok(unsafe { sys::cuStreamSynchronize(stream) });
        }
        started.elapsed()
    }
}
