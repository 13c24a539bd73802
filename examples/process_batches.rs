//! Sends batches through the GPU: one after another, on two streams, and on three, with one to four
//! buffers.
//!
//! With two streams, both copies share one queue, so a download waits behind the uploads that were
//! enqueued before it. With three streams and two buffers all engines work at once. More buffers
//! change little, because the stages are even.

#![forbid(unsafe_code)]

use std::time::Duration;

use clap::Parser;
use cuda_rt::pipeline::{Pipeline, Report};
use cuda_rt::{Device, DeviceSlice, Grid1, Live, NamedStream, ReadBy, Stream, StreamTag, WriteBy};
use cuda_rt_examples::cli::{DeviceChoice, Outcome, Steps, heading, median, ms};
use cuda_rt_examples::on_device;
use device_kernels::process;

cuda_rt::streams! {
    Upload;
    Compute, priority = High;
    Download;
    /// Uploads and downloads.
    Copies;
}

/// Processes batches serially and overlapped, and compares the times.
#[derive(Parser)]
struct Args {
    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Number of batches.
    #[arg(long, default_value_t = 8)]
    batches: u32,
    /// Number of elements in a batch.
    #[arg(long, default_value_t = 1 << 20)]
    elements: usize,
    /// Number of kernels for each batch. On an H200, sixteen take about as long as a copy of the
    /// batch.
    #[arg(long, default_value_t = 16)]
    kernels: u32,
}

const GAIN: f32 = 0.5;
const OFFSET: f32 = 1.0;
/// Distance between the elements that hold the batch's number. All other elements stay 0, so that
/// filling a batch costs the host very little.
const STRIDE: usize = 1024;

fn fill(batch: u32, pinned: &mut [f32]) {
    for value in pinned.iter_mut().step_by(STRIDE) {
        *value = batch as f32;
    }
}

/// The work on a batch: one kernel, repeated, in the place of a heavier kernel.
fn compute<S: StreamTag>(
    stream: &Stream<S>,
    kernels: u32,
    input: &DeviceSlice<f32, impl ReadBy<S>>,
    output: &mut DeviceSlice<f32, impl WriteBy<S>>,
) -> cuda_rt::Result<()> {
    let grid = Grid1::covering(output.len());
    (0..kernels).try_for_each(|_| process(stream, grid, input, output, GAIN, OFFSET))
}

/// Checks the result: each element that holds the batch's number, and its neighbour.
fn check(batch: u32, data: &[f32]) -> Outcome {
    let processed = |value: f32| (0..16).fold(value, |value, _| value.mul_add(GAIN, OFFSET));
    let expected = [processed(batch as f32), processed(0.0)];
    match data.chunks(STRIDE).position(|chunk| chunk[..2] != expected) {
        None => Ok(()),
        Some(chunk) => Err(format!("batch {batch} is wrong near element {}", chunk * STRIDE).into()),
    }
}

/// Runs on one stream; the host waits for each batch before it begins the next.
fn serial<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome<Duration> {
    let stream = gpu.stream::<Compute<D>>()?;
    let (mut source, mut result) = (gpu.pinned(args.elements)?, gpu.pinned(args.elements)?);
    let mut input = stream.alloc_zeroed(args.elements)?;
    let mut output = stream.alloc_zeroed(args.elements)?;
    let start = stream.record_timed_event()?;
    for batch in 0..args.batches {
        fill(batch, &mut source);
        let from = stream.adopt(source)?;
        let mut to = stream.adopt(result)?;
        stream.copy_to_device(&from, &mut input)?;
        compute(&stream, args.kernels, &input, &mut output)?;
        stream.copy_to_host(&output, &mut to)?;
        (source, result) = stream.release((from, to))?.synchronize()?;
        check(batch, &result)?;
    }
    let end = stream.record_timed_event()?.synchronize()?;
    let elapsed_ms = end.elapsed_ms_since(&start.synchronize()?)?;
    Ok(Duration::from_secs_f32(elapsed_ms / 1e3))
}

/// Runs overlapped, on the streams `U`, `C` and `W`; two of them may be the same.
fn overlapped<D: Live, U, C, W>(gpu: &Device<D>, args: &Args, buffers: usize) -> Outcome<Report>
where
    U: NamedStream<Device = D>,
    C: NamedStream<Device = D>,
    W: NamedStream<Device = D>,
{
    let report = Pipeline::new(gpu, buffers)
        .source(args.elements, 0..args.batches, |batch, pinned: &mut [f32]| {
            fill(*batch, pinned);
            Ok(pinned.len())
        })
        .upload::<U>()
        .stage::<C>(|stream, _, input, output| compute(stream, args.kernels, input, output))
        .download::<W>()
        .sink(check)
        .run()?;
    Ok(report)
}

fn run<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome {
    println!("{}", heading(gpu));
    println!(
        "{} batches of {} elements, {} kernels each\n",
        args.batches, args.elements, args.kernels
    );
    let steps = Steps::new(10);
    let serial = steps.step("serial", || median(gpu, || serial(gpu, args)))?;
    let line = |name: &str, time: Duration| {
        let faster = serial.as_secs_f64() / time.as_secs_f64();
        steps.line(format_args!("{name:28} {:9.3} ms {faster:6.2}x", ms(time)));
    };
    line("serial", serial);
    for buffers in 1..=4 {
        let name = format!("two streams, N = {buffers}");
        let round = || Ok(overlapped::<D, Copies<D>, Compute<D>, Copies<D>>(gpu, args, buffers)?.on_device());
        line(&name, steps.step(&name, || median(gpu, round))?);
    }
    for buffers in 1..=4 {
        let name = format!("three streams, N = {buffers}");
        let round =
            || Ok(overlapped::<D, Upload<D>, Compute<D>, Download<D>>(gpu, args, buffers)?.on_device());
        line(&name, steps.step(&name, || median(gpu, round))?);
    }
    let report = steps.step("the report of N = 2", || {
        overlapped::<D, Upload<D>, Compute<D>, Download<D>>(gpu, args, 2)
    })?;
    drop(steps);
    println!("\n{report}");
    Ok(())
}

fn main() -> Outcome {
    let args = Args::parse();
    on_device!(args.device, |gpu| run(gpu, &args))
}
