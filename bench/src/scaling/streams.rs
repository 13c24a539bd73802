//! Each operation on a number of streams in turn. Streams are created at run time, as no program
//! names a thousand.

use std::hint::black_box;

use cuda_rt::{AnyDevice, AnyStream, DeviceBuffer, Grid1, Idle, Kept, Live, PinnedBuffer, Priority, Result};
use device_kernels::scale;

use super::{Call, LEN, Scaling, turn};
use crate::raw::{Event, Memory, Pinned, Raw, Stream as RawStream};
use crate::rounds::Outcome;

const OF: &str = "streams";
const LAUNCH: &str = "launch";
const UPLOAD: &str = "upload of 4 KiB";
const HANDOFF: &str = "handoff to another stream and back";
const ALLOCATION: &str = "allocation and free";
const HOST_WAIT: &str = "host waits for a buffer";

/// The raw objects of one stream.
struct RawPlace {
    stream: RawStream,
    input: Memory,
    output: Memory,
    pinned: Pinned,
    there: Event,
    back: Event,
}

struct ByRaw {
    raw: &'static Raw,
    other: RawStream,
    places: Vec<RawPlace>,
}

impl ByRaw {
    fn new(raw: &'static Raw, number: usize) -> Self {
        let place = |_| RawPlace {
            stream: RawStream::new(),
            input: Memory::new(LEN),
            output: Memory::new(LEN),
            pinned: Pinned::new(LEN),
            there: Event::new(),
            back: Event::new(),
        };
        Self {
            raw,
            other: RawStream::new(),
            places: (0..number).map(place).collect(),
        }
    }

    fn call(&self, operation: &str) -> Option<Call<'_>> {
        let (number, mut at) = (self.places.len(), 0);
        let mut next = move || &self.places[turn(&mut at, number)];
        let mut call: Box<dyn FnMut() + '_> = match operation {
            LAUNCH => Box::new(move || {
                let place = next();
                self.raw.scale(&place.stream, &place.input, &place.output, 2.0);
            }),
            UPLOAD => Box::new(move || {
                let place = next();
                place.stream.upload(&place.pinned, &place.input);
            }),
            HANDOFF => Box::new(move || {
                let place = next();
                place.stream.record(&place.there);
                self.other.wait(&place.there);
                self.other.record(&place.back);
                place.stream.wait(&place.back);
            }),
            ALLOCATION => Box::new(move || next().stream.alloc_and_free(LEN * size_of::<f32>())),
            HOST_WAIT => Box::new(move || {
                let place = next();
                place.stream.record(&place.there);
                place.there.synchronize();
            }),
            _ => return None,
        };
        Some(Box::new(move || {
            call();
            Ok(())
        }))
    }
}

type Data = DeviceBuffer<f32, Idle<AnyDevice>>;

/// A stream and what it keeps.
struct Place {
    stream: AnyStream,
    data: Option<Kept<(Data, Data)>>,
    host: Option<Kept<PinnedBuffer<f32, Idle<AnyDevice>>>>,
}

impl Place {
    fn new<D: Live>(gpu: &cuda_rt::Device<D>, name: &str) -> Result<Self> {
        let stream = gpu.create_stream(name, Priority::Low)?;
        let data =
            stream.run(|s| Ok::<_, cuda_rt::Error>(s.keep((s.alloc_zeroed(LEN)?, s.alloc_zeroed(LEN)?))))?;
        let host = stream.run(|s| Ok::<_, cuda_rt::Error>(s.keep(s.adopt(s.device().pinned(LEN)?)?)))?;
        Ok(Self {
            stream,
            data: Some(data),
            host: Some(host),
        })
    }

    fn launch(&mut self) -> Outcome {
        let data = self.data.as_mut().ok_or(TAKEN)?;
        Ok(self.stream.run(|s| {
            let (input, mut output) = s.view(data)?;
            scale(s, Grid1::covering(LEN), &input, &mut output, 2.0)
        })?)
    }

    fn upload(&mut self) -> Outcome {
        let (data, host) = (self.data.as_mut().ok_or(TAKEN)?, self.host.as_mut().ok_or(TAKEN)?);
        Ok(self.stream.run(|s| {
            let (mut target, _) = s.view(data)?;
            s.copy_to_device(&s.view(host)?, &mut target)
        })?)
    }

    fn there_and_back(&mut self, other: &AnyStream) -> Outcome {
        let here = self.data.take().ok_or(TAKEN)?;
        let there = other.run(|s| s.open_ordered(here).map(|data| s.keep(data)));
        let there = there.map_err(|refused| refused.error)?;
        let back = self
            .stream
            .run(|s| s.open_ordered(there).map(|data| s.keep(data)));
        self.data = Some(back.map_err(|refused| refused.error)?);
        Ok(())
    }

    fn alloc_and_free(&self) -> Outcome {
        Ok(self
            .stream
            .run(|s| s.alloc_uninit::<f32>(LEN).map(|new| drop(black_box(new))))?)
    }

    fn host_wait(&mut self) -> Outcome {
        let host = self.host.take().ok_or(TAKEN)?;
        let host = self.stream.run(|s| {
            let host = s.open(host).map_err(|refused| refused.error)?;
            let idle = s.release(host)?.synchronize()?;
            Ok::<_, cuda_rt::Error>(s.keep(s.adopt(idle)?))
        });
        self.host = Some(host?);
        Ok(())
    }
}

pub(super) fn run<D: Live>(scaling: &mut Scaling<'_, D>) -> Outcome {
    let gpu = scaling.gpu;
    let other = &gpu.create_stream("other", Priority::Low)?;
    for number in scaling.numbers(&[1, 10, 100, 1000]) {
        let by_raw = scaling.raw.map(|raw| ByRaw::new(raw, number));
        let places = (0..number).map(|at| Place::new(gpu, &format!("stream {at}")));
        let places: Vec<_> = places.collect::<Result<_>>()?;
        let streams: Vec<_> = places.iter().map(|place| place.stream.clone()).collect();
        let settle = || -> Outcome {
            if let Some(by_raw) = &by_raw {
                by_raw.other.synchronize();
                by_raw.places.iter().for_each(|place| place.stream.synchronize());
            }
            streams
                .iter()
                .chain([other])
                .try_for_each(AnyStream::synchronize)?;
            Ok(())
        };
        let places = std::cell::RefCell::new(places);
        let mut cell = |operation: &'static str, ours: &dyn Fn(&mut Place) -> Outcome| {
            let (mut at, mut places) = (0, places.borrow_mut());
            let raw = by_raw.as_ref().and_then(|by_raw| by_raw.call(operation));
            let ours = Box::new(move || ours(&mut places[turn(&mut at, number)]));
            scaling.cell((operation, OF, number), raw, ours, &settle)
        };
        cell(LAUNCH, &Place::launch)?;
        cell(UPLOAD, &Place::upload)?;
        cell(HANDOFF, &|place| place.there_and_back(other))?;
        cell(ALLOCATION, &|place| place.alloc_and_free())?;
        cell(HOST_WAIT, &Place::host_wait)?;
    }
    scaling.print(OF, &[LAUNCH, UPLOAD, HANDOFF, ALLOCATION, HOST_WAIT]);
    Ok(())
}

const TAKEN: &str = "what a stream keeps comes back";
