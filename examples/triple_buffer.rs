//! Uneven stages: shows the use of a third buffer.
//!
//! Of eight items, one takes the GPU nine times as long as the others, and another takes the host
//! nine times as long. GPU and host are busy for the same time on average, so they could always
//! overlap. With few buffers they cannot. While one of them works on its long item, the other soon
//! finishes the short items that the buffers hold, and waits.

#![forbid(unsafe_code)]

use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use cuda_rt::pipeline::{Pipeline, Report};
use cuda_rt::{Device, Grid1, Live};
use cuda_rt_examples::cli::{DeviceChoice, Outcome, Steps, heading, ms};
use cuda_rt_examples::on_device;
use device_kernels::process;

cuda_rt::streams! {
    Upload;
    Compute, priority = High;
    Download;
}

/// Runs a pipeline of uneven stages with one to five buffers.
#[derive(Parser)]
struct Args {
    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Number of items.
    #[arg(long, default_value_t = 64)]
    items: u32,
}

const ELEMENTS: usize = 1 << 14;
/// Number of kernels for a short item.
const KERNELS: u32 = 64;

/// The item's time, as a multiple of a short item's.
fn weight(item: u32, long: u32) -> u32 {
    if item % 8 == long { 9 } else { 1 }
}

fn pipeline<D: Live>(
    gpu: &Device<D>,
    items: impl Iterator<Item = u32> + Send,
    buffers: usize,
    mut sink: impl FnMut(u32) + Send,
) -> Outcome<Report> {
    let report = Pipeline::new(gpu, buffers)
        .source(ELEMENTS, items, |item, pinned: &mut [f32]| {
            pinned[0] = *item as f32;
            Ok(pinned.len())
        })
        .upload::<Upload<D>>()
        .stage::<Compute<D>>(|stream, item, input, output| {
            let grid = Grid1::covering(output.len());
            let kernels = KERNELS * weight(*item, 3);
            (0..kernels).try_for_each(|_| process(stream, grid, input, output, 1.0, 0.0))
        })
        .download::<Download<D>>()
        .sink(|item, data| {
            if data[0] != item as f32 {
                return Err(format!("item {item} came out as {}", data[0]).into());
            }
            sink(item);
            Ok(())
        })
        .run()?;
    Ok(report)
}

/// Keeps the calling thread busy for a time, by the host's clock or the simulated device's model.
fn work<D: Live>(gpu: &Device<D>, time: Duration) {
    match gpu.simulator() {
        Some(simulator) => simulator.spend_host_ns(time.as_nanos() as u64),
        None => {
            // This spins, because sleeping is not exact enough.
            let end = Instant::now() + time;
            while Instant::now() < end {
                thread::yield_now();
            }
        }
    }
}

fn run<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome {
    println!("{}", heading(gpu));
    // Measure the GPU's time for a short item, so that the host can take as long.
    pipeline(gpu, [0, 1].into_iter(), 1, |_| ())?;
    let short = pipeline(gpu, [0, 1, 2, 4].into_iter(), 1, |_| ())?.stages[2].busy / 4;
    println!(
        "a short item takes the GPU {:.3} ms, and the host as long\n",
        ms(short)
    );

    let mut first = None;
    let steps = Steps::new(5);
    for buffers in 1..=5 {
        let report = steps.step(&format!("N = {buffers}"), || {
            pipeline(gpu, 0..args.items, buffers, |item| {
                work(gpu, short * weight(item, 7));
            })
        })?;
        steps.line(format_args!(
            "N = {buffers} {:9.3} ms, {:5.1} % of the bound",
            ms(report.wall),
            report.efficiency() * 100.0
        ));
        first.get_or_insert(report);
    }
    drop(steps);
    if let Some(report) = first {
        println!("\nof the run with one buffer:\n{report}");
    }
    Ok(())
}

fn main() -> Outcome {
    let args = Args::parse();
    on_device!(args.device, |gpu| run(gpu, &args))
}
