//! A number of threads that work at once, all on one stream or each on a stream of its own. The
//! figure is the time of all threads, divided by the operations of all threads: if threads do not
//! hinder each other, it falls as their number grows.

use std::sync::Barrier;
use std::time::Instant;

use cuda_rt::{DeviceBuffer, Grid1, Live, Result, StreamTag};
use device_kernels::scale;

use super::{LEN, Scaling};
use crate::raw::{Event, Memory, Raw, Stream as RawStream};
use crate::report::{OURS, RAW};
use crate::rounds::Outcome;

cuda_rt::streams! { pub Compute; pub Other; }

const ONE: &str = "threads on one stream";
const OWN: &str = "threads on streams of their own";
const LAUNCH: &str = "launch";
const HANDOFF: &str = "handoff there and back";

/// Lets each worker work on a thread of its own, all at once. `body` prepares, calls its second
/// argument once to wait for the others, makes `calls` calls, and returns when they began and
/// ended. Returns the time of one call, in ns, from the first thread's beginning to the last
/// thread's end.
fn together<W: Send>(
    workers: &mut [W],
    calls: usize,
    body: impl Fn(&mut W, &dyn Fn() -> Instant) -> Outcome<[Instant; 2]> + Sync,
) -> Outcome<f64> {
    let number = workers.len();
    let start = Barrier::new(number);
    let times = std::thread::scope(|scope| {
        let (start, body) = (&start, &body);
        let ready = move || {
            start.wait();
            Instant::now()
        };
        let spawn = |worker| scope.spawn(move || body(worker, &ready));
        let threads: Vec<_> = workers.iter_mut().map(spawn).collect();
        let join =
            |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().map_err(|_| "a thread panicked")?;
        threads.into_iter().map(join).collect::<Outcome<Vec<_>>>()
    })?;
    let began = times.iter().map(|[began, _]| *began).min();
    let ended = times.iter().map(|[_, ended]| *ended).max();
    let (began, ended) = began.zip(ended).ok_or("there are no threads")?;
    Ok((ended - began).as_nanos() as f64 / (calls * number) as f64)
}

/// The raw objects of one thread.
struct RawWorker<'a> {
    stream: &'a RawStream,
    other: &'a RawStream,
    input: Memory,
    output: Memory,
    there: Event,
    back: Event,
}

impl RawWorker<'_> {
    fn work(&self, raw: &Raw, operation: &str) {
        match operation {
            LAUNCH => raw.scale(self.stream, &self.input, &self.output, 2.0),
            _ => {
                self.stream.record(&self.there);
                self.other.wait(&self.there);
                self.other.record(&self.back);
                self.stream.wait(&self.back);
            }
        }
    }
}

/// What a thread of ours uses. `None` only during an operation.
type Data<S> = Option<(DeviceBuffer<f32, S>, DeviceBuffer<f32, S>)>;

fn work<S: StreamTag, O: StreamTag<Device = S::Device>>(
    stream: &cuda_rt::Stream<S>,
    other: &cuda_rt::Stream<O>,
    data: &mut Data<S>,
    operation: &str,
) -> Outcome
where
    S::Device: Live,
{
    let (input, mut output) = data.take().ok_or("the buffers come back")?;
    if operation == LAUNCH {
        scale(stream, Grid1::covering(LEN), &input, &mut output, 2.0)?;
        *data = Some((input, output));
    } else {
        let there = stream.release((input, output))?;
        let back = other.release(other.acquire(there)?)?;
        *data = Some(stream.acquire(back)?);
    }
    Ok(())
}

pub(super) fn run<D: Live>(scaling: &mut Scaling<'_, D>) -> Outcome {
    for number in scaling.numbers(&[1, 2, 4, 8, 16]) {
        for operation in [LAUNCH, HANDOFF] {
            on_one_stream(scaling, number, operation)?;
            on_own_streams(scaling, number, operation)?;
        }
    }
    for of in [ONE, OWN] {
        scaling.print(of, &[LAUNCH, HANDOFF]);
    }
    Ok(())
}

/// Calls of each thread in a sample. All threads together must not fill CUDA's queue of about a
/// thousand launches, or the figure would be the GPU's time.
fn calls(wanted: usize, threads: usize) -> usize {
    wanted.min(400 / threads).max(1)
}

type Sample<'a> = Box<dyn FnMut() -> Outcome<f64> + 'a>;

/// Takes samples of raw calls on `streams` streams. The streams outlive the workers' memory, so
/// they are drained after each sample.
fn raw_sample<'a>(
    raw: &'static Raw,
    streams: &'a [RawStream],
    other: &'a RawStream,
    (number, calls): (usize, usize),
    operation: &'static str,
) -> Sample<'a> {
    let worker = |thread: usize| RawWorker {
        stream: &streams[thread % streams.len()],
        other,
        input: Memory::new(LEN),
        output: Memory::new(LEN),
        there: Event::new(),
        back: Event::new(),
    };
    let mut workers: Vec<_> = (0..number).map(worker).collect();
    Box::new(move || {
        let sample = together(&mut workers, calls, |worker, ready| {
            raw.bind();
            let began = ready();
            (0..calls).for_each(|_| worker.work(raw, operation));
            Ok([began, Instant::now()])
        });
        streams.iter().chain([other]).for_each(RawStream::synchronize);
        sample
    })
}

fn on_one_stream<D: Live>(scaling: &mut Scaling<'_, D>, number: usize, operation: &'static str) -> Outcome {
    let calls = calls(scaling.plan.calls, number);
    let gpu = scaling.gpu;
    let (compute, other) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Other<D>>()?);
    let data = |_| Ok(Some((compute.alloc_zeroed(LEN)?, compute.alloc_zeroed(LEN)?)));
    let mut workers: Vec<Data<Compute<D>>> = (0..number).map(data).collect::<Result<_>>()?;
    let ours = || {
        let sample = together(&mut workers, calls, |data, ready| {
            let began = ready();
            (0..calls).try_for_each(|_| work(&compute, &other, data, operation))?;
            Ok([began, Instant::now()])
        });
        compute.synchronize()?;
        other.synchronize()?;
        sample
    };
    against_raw(scaling, (operation, ONE, number), 1, calls, Box::new(ours))
}

/// Samples our way, and the raw way on `streams` streams where there is a GPU.
fn against_raw<D: Live>(
    scaling: &mut Scaling<'_, D>,
    cell: (&'static str, &'static str, usize),
    streams: usize,
    calls: usize,
    ours: Sample<'_>,
) -> Outcome {
    let (operation, _, threads) = cell;
    let (streams, other) = raw_streams(scaling.raw, streams);
    let mut ways: Vec<(&'static str, Sample<'_>)> = Vec::new();
    if let (Some(raw), Some(other)) = (scaling.raw, &other) {
        let sample = raw_sample(raw, &streams, other, (threads, calls), operation);
        ways.push((RAW, sample));
    }
    ways.push((OURS, ours));
    let rounds = scaling.plan.rounds;
    scaling.samples(cell, ways, rounds)
}

fn raw_streams(raw: Option<&'static Raw>, number: usize) -> (Vec<RawStream>, Option<RawStream>) {
    let number = if raw.is_some() { number } else { 0 };
    let streams = (0..number).map(|_| RawStream::new()).collect();
    (streams, raw.map(|_| RawStream::new()))
}

/// Each thread has a stream of its own, and hands over to one shared stream.
fn on_own_streams<D: Live>(scaling: &mut Scaling<'_, D>, number: usize, operation: &'static str) -> Outcome {
    let calls = calls(scaling.plan.calls, number);
    let gpu = scaling.gpu;
    let other = gpu.stream::<Other<D>>()?;
    let create = |at| gpu.create_stream(&format!("thread {at}"), cuda_rt::Priority::Low);
    let streams = (0..number).map(create).collect::<Result<Vec<_>>>()?;
    // A thread makes its buffers inside `run_on`, and drops them at the end of a sample.
    let mut workers = streams.clone();
    let ours = || {
        let sample = together(&mut workers, calls, |stream, ready| {
            stream.run_on(gpu, |stream| {
                let (x, y) = (stream.alloc_zeroed(LEN), stream.alloc_zeroed(LEN));
                let began = ready();
                let mut data = Some((x?, y?));
                (0..calls).try_for_each(|_| work(stream, &other, &mut data, operation))?;
                Ok([began, Instant::now()])
            })?
        });
        streams.iter().try_for_each(cuda_rt::AnyStream::synchronize)?;
        other.synchronize()?;
        sample
    };
    against_raw(scaling, (operation, OWN, number), number, calls, Box::new(ours))
}
