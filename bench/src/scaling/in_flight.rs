//! Operations beside a number of handoffs that are released and not acquired, and beside a number
//! of leases of one shared buffer.

use std::collections::VecDeque;
use std::hint::black_box;

use cuda_rt::{DeviceBuffer, Handoff, Idle, Live, Result};

use super::{Call, LEN, Scaling, turn};
use crate::raw::{Event, Raw, Stream as RawStream};
use crate::rounds::Outcome;

cuda_rt::streams! { pub Compute; pub Other; }

const HANDOFFS: &str = "handoffs in flight";
const LEASES: &str = "leases";
const THERE_AND_BACK: &str = "handoff there and back";
const OLDEST: &str = "the oldest handoff in flight is acquired, and released again";
const LEASE: &str = "lease on another stream";

/// The raw objects: an event in the place of each handoff or lease.
struct ByRaw {
    compute: RawStream,
    other: RawStream,
    events: Vec<Event>,
    more: [Event; 2],
}

impl ByRaw {
    fn new(_context: &'static Raw, number: usize) -> Self {
        let by_raw = Self {
            compute: RawStream::new(),
            other: RawStream::new(),
            events: (0..number).map(|_| Event::new()).collect(),
            more: [Event::new(), Event::new()],
        };
        for event in by_raw.events.iter().chain(&by_raw.more) {
            by_raw.compute.record(event);
        }
        by_raw
    }

    fn call(&self, operation: &str) -> Option<Call<'_>> {
        let Self { compute, other, .. } = self;
        let [one, two] = &self.more;
        let (number, mut at) = (self.events.len(), 0);
        Some(match operation {
            THERE_AND_BACK => Box::new(move || {
                compute.record(one);
                other.wait(one);
                other.record(two);
                compute.wait(two);
                Ok(())
            }),
            OLDEST => Box::new(move || {
                let event = &self.events[turn(&mut at, number)];
                compute.wait(event);
                compute.record(event);
                Ok(())
            }),
            LEASE => Box::new(move || {
                other.wait(one);
                other.record(two);
                Ok(())
            }),
            _ => return None,
        })
    }
}

pub(super) fn run<D: Live>(scaling: &mut Scaling<'_, D>) -> Outcome {
    let gpu = scaling.gpu;
    let (compute, other) = (&gpu.stream::<Compute<D>>()?, &gpu.stream::<Other<D>>()?);
    let data = || compute.alloc_zeroed::<f32>(LEN);
    for number in scaling.numbers(&[1, 10, 100, 1000, 10_000]) {
        let by_raw = scaling.raw.map(|raw| ByRaw::new(raw, number));
        let settle = || -> Outcome {
            if let Some(by_raw) = &by_raw {
                by_raw.compute.synchronize();
                by_raw.other.synchronize();
            }
            compute.synchronize()?;
            Ok(other.synchronize()?)
        };
        let mut cell = |operation: &'static str, of: &'static str, ours: Call<'_>| {
            let raw = by_raw.as_ref().and_then(|by_raw| by_raw.call(operation));
            scaling.cell((operation, of, number), raw, ours, &settle)
        };
        let mut one = Some(data()?);
        let mut there_and_back = || -> Outcome {
            let there = compute.release(one.take().ok_or(TAKEN)?)?;
            let back = other.release(other.acquire(there)?)?;
            one = Some(compute.acquire(back)?);
            Ok(())
        };

        let pending = (0..number).map(|_| compute.release(data()?));
        let mut pending: VecDeque<Handoff<DeviceBuffer<f32, Idle<D>>>> = pending.collect::<Result<_>>()?;
        cell(THERE_AND_BACK, HANDOFFS, Box::new(&mut there_and_back))?;
        cell(
            OLDEST,
            HANDOFFS,
            Box::new(|| {
                let oldest = compute.acquire(pending.pop_front().ok_or(TAKEN)?)?;
                pending.push_back(compute.release(oldest)?);
                Ok(())
            }),
        )?;
        drop(pending);

        let shared = compute.share(data()?)?;
        let leases = (0..number).map(|_| other.lease(&shared));
        let leases = leases.collect::<Result<Vec<_>>>()?;
        cell(
            LEASE,
            LEASES,
            Box::new(|| {
                drop(black_box(other.lease(&shared)?));
                Ok(())
            }),
        )?;
        cell(THERE_AND_BACK, LEASES, Box::new(&mut there_and_back))?;
        drop(leases);
    }
    scaling.print(HANDOFFS, &[THERE_AND_BACK, OLDEST]);
    scaling.print(LEASES, &[LEASE, THERE_AND_BACK]);
    Ok(())
}

const TAKEN: &str = "each buffer comes back";
