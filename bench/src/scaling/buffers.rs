//! Each operation beside a number of buffers that live, and on each of them in turn.

use std::hint::black_box;

use cuda_rt::{AnyDevice, DeviceBuffer, Grid1, Idle, Kept, Live, PinnedBuffer, Priority, Result, Shared};
use device_kernels::scale;

use super::{Call, LEN, Scaling, turn};
use crate::raw::{Event, Memory, Pinned, Raw, Stream as RawStream};
use crate::rounds::Outcome;

cuda_rt::streams! { pub Compute; pub Other; }

const OF: &str = "buffers";
const OPERATIONS: [&str; 7] = [
    "launch",
    "upload of 4 KiB",
    "handoff there and back",
    "allocation and free",
    "lease on another stream",
    "host waits for a buffer",
    "view on a stream of run time",
];

/// The raw objects. Streams are drained before memory is freed.
struct ByRaw {
    raw: &'static Raw,
    compute: RawStream,
    other: RawStream,
    buffers: Vec<Memory>,
    output: Memory,
    pinned: Pinned,
    /// An event of each buffer, and one for the way back.
    events: Vec<(Event, Event)>,
}

impl ByRaw {
    fn new(raw: &'static Raw, number: usize) -> Self {
        let by_raw = Self {
            raw,
            compute: RawStream::new(),
            other: RawStream::new(),
            buffers: (0..number).map(|_| Memory::new(LEN)).collect(),
            output: Memory::new(LEN),
            pinned: Pinned::new(LEN),
            events: (0..number).map(|_| (Event::new(), Event::new())).collect(),
        };
        for (there, _) in &by_raw.events {
            by_raw.compute.record(there);
        }
        by_raw
    }

    fn there_and_back(&self, (there, back): &(Event, Event)) {
        self.compute.record(there);
        self.other.wait(there);
        self.other.record(back);
        self.compute.wait(back);
    }

    /// The operation on each buffer in turn. A view needs no call.
    fn call(&self, operation: &str) -> Option<Call<'_>> {
        let (number, mut at) = (self.buffers.len(), 0);
        let Self { compute, other, .. } = self;
        let mut next = move || turn(&mut at, number);
        let mut call: Box<dyn FnMut() + '_> = match operation {
            "launch" => Box::new(move || {
                let input = &self.buffers[next()];
                self.raw.scale(compute, input, &self.output, 2.0);
            }),
            "upload of 4 KiB" => Box::new(move || compute.upload(&self.pinned, &self.buffers[next()])),
            "handoff there and back" => Box::new(move || self.there_and_back(&self.events[next()])),
            "allocation and free" => Box::new(move || compute.alloc_and_free(LEN * size_of::<f32>())),
            "lease on another stream" => Box::new(move || {
                let (shared, read) = &self.events[next()];
                other.wait(shared);
                other.record(read);
            }),
            "host waits for a buffer" => Box::new(move || {
                let (there, _) = &self.events[next()];
                compute.record(there);
                there.synchronize();
            }),
            _ => return None,
        };
        Some(Box::new(move || {
            call();
            Ok(())
        }))
    }
}

type Data<S> = DeviceBuffer<f32, S>;

pub(super) fn run<D: Live>(scaling: &mut Scaling<'_, D>) -> Outcome {
    let gpu = scaling.gpu;
    let (compute, other) = (&gpu.stream::<Compute<D>>()?, &gpu.stream::<Other<D>>()?);
    let any = &gpu.create_stream("views", Priority::Low)?;
    let settle = || -> Outcome {
        compute.synchronize()?;
        other.synchronize()?;
        Ok(any.synchronize()?)
    };
    let data = |_| compute.alloc_zeroed::<f32>(LEN);
    for number in scaling.numbers(&[1, 10, 100, 1000, 10_000]) {
        let by_raw = scaling.raw.map(|raw| ByRaw::new(raw, number));
        let settle = || -> Outcome {
            if let Some(by_raw) = &by_raw {
                by_raw.compute.synchronize();
                by_raw.other.synchronize();
            }
            settle()
        };
        let buffers = (0..number).map(data).map(|one| one.map(Some));
        let mut buffers: Vec<Option<Data<Compute<D>>>> = buffers.collect::<Result<_>>()?;
        let mut output = data(0)?;
        let source = &compute.adopt(gpu.pinned(LEN)?)?;
        let mut cell = |operation: &'static str, ours: Call<'_>| {
            let raw = by_raw.as_ref().and_then(|by_raw| by_raw.call(operation));
            scaling.cell((operation, OF, number), raw, ours, &settle)
        };
        let mut at = 0;
        cell(
            "launch",
            Box::new(|| {
                let input = buffers[turn(&mut at, number)].as_ref().ok_or(TAKEN)?;
                Ok(scale(compute, Grid1::covering(LEN), input, &mut output, 2.0)?)
            }),
        )?;
        cell(
            "upload of 4 KiB",
            Box::new(|| {
                let target = buffers[turn(&mut at, number)].as_mut().ok_or(TAKEN)?;
                Ok(compute.copy_to_device(source, target)?)
            }),
        )?;
        cell(
            "handoff there and back",
            Box::new(|| {
                let place = &mut buffers[turn(&mut at, number)];
                let there = compute.release(place.take().ok_or(TAKEN)?)?;
                let back = other.release(other.acquire(there)?)?;
                *place = Some(compute.acquire(back)?);
                Ok(())
            }),
        )?;
        cell(
            "allocation and free",
            Box::new(|| {
                drop(black_box(compute.alloc_uninit::<f32>(LEN)?));
                Ok(())
            }),
        )?;
        let shared = buffers.into_iter().flatten().map(|one| compute.share(one));
        let shared: Vec<Shared<Data<Idle<D>>>> = shared.collect::<Result<_>>()?;
        cell(
            "lease on another stream",
            Box::new(|| {
                drop(black_box(other.lease(&shared[turn(&mut at, number)])?));
                Ok(())
            }),
        )?;
        drop(shared);
        let hosts = (0..number).map(|_| compute.adopt(gpu.pinned::<f32>(LEN)?).map(Some));
        let mut hosts: Vec<Option<PinnedBuffer<f32, Compute<D>>>> = hosts.collect::<Result<_>>()?;
        cell(
            "host waits for a buffer",
            Box::new(|| {
                let place = &mut hosts[turn(&mut at, number)];
                let host = compute.release(place.take().ok_or(TAKEN)?)?.synchronize()?;
                *place = Some(compute.adopt(host)?);
                Ok(())
            }),
        )?;
        let kept = (0..number).map(|_| any.run(|stream| Ok(stream.keep(stream.alloc_zeroed(LEN)?))));
        let mut kept: Vec<Kept<Data<Idle<AnyDevice>>>> = kept.collect::<Result<_>>()?;
        cell(
            "view on a stream of run time",
            Box::new(|| {
                let kept = &mut kept[turn(&mut at, number)];
                Ok(any.run(|stream| stream.view(kept).map(|view| _ = black_box(view)))?)
            }),
        )?;
    }
    scaling.print(OF, &OPERATIONS);
    Ok(())
}

const TAKEN: &str = "each buffer comes back";
