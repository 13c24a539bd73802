//! Why there is no default stream.
//!
//! In CUDA, work that names no stream goes to the *legacy default stream*. It waits for all other
//! streams, and all other streams wait for it (CUDA C++ Programming Guide, "Default Stream"). A
//! single call of this kind, perhaps in a library, makes a program with three streams run as if it
//! had one. No error reports it: the results are right, but nothing overlaps.
//!
//! Safe code of cuda-rt cannot fall into this trap. Every operation is a method of a
//! [`Stream`](cuda_rt::Stream), every stream has a name, and no stream waits for the default stream
//! (`CU_STREAM_NON_BLOCKING`). To show the cost of the trap, this example runs all work on one
//! stream.

#![forbid(unsafe_code)]

use clap::Parser;
use cuda_rt::pipeline::{Pipeline, Report};
use cuda_rt::{Device, Grid1, Live, NamedStream};
use cuda_rt_examples::cli::{DeviceChoice, Outcome, Steps, heading, median, ms};
use cuda_rt_examples::on_device;
use device_kernels::process;

cuda_rt::streams! {
    /// One stream in the place of three, as with the default stream.
    Everything;
    Upload;
    Compute, priority = High;
    Download;
}

/// Shows the cost of work on the default stream.
#[derive(Parser)]
struct Args {
    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Number of items.
    #[arg(long, default_value_t = 16)]
    items: u32,
}

const ELEMENTS: usize = 1 << 20;
const KERNELS: usize = 16;

/// The program, on the streams that it is given.
fn pipeline<D: Live, U, C, W>(gpu: &Device<D>, items: u32) -> Outcome<Report>
where
    U: NamedStream<Device = D>,
    C: NamedStream<Device = D>,
    W: NamedStream<Device = D>,
{
    let report = Pipeline::new(gpu, 2)
        .source(ELEMENTS, 0..items, |item, pinned: &mut [f32]| {
            pinned[0] = *item as f32;
            Ok(pinned.len())
        })
        .upload::<U>()
        .stage::<C>(|stream, _, input, output| {
            (0..KERNELS).try_for_each(|_| process(stream, Grid1::covering(ELEMENTS), input, output, 1.0, 1.0))
        })
        .download::<W>()
        .sink(|item, data| match data[0] - item as f32 {
            16.0 => Ok(()),
            _ => Err(format!("item {item} came out as {}", data[0]).into()),
        })
        .run()?;
    Ok(report)
}

fn run<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome {
    println!("{}", heading(gpu));
    let steps = Steps::new(2);
    let round =
        || Ok(pipeline::<D, Everything<D>, Everything<D>, Everything<D>>(gpu, args.items)?.on_device());
    let one = steps.step("one stream", || median(gpu, round))?;
    let round = || Ok(pipeline::<D, Upload<D>, Compute<D>, Download<D>>(gpu, args.items)?.on_device());
    let three = steps.step("three streams", || median(gpu, round))?;
    drop(steps);
    println!("as on the default stream: {:9.3} ms", ms(one));
    println!("three streams:            {:9.3} ms", ms(three));
    println!(
        "the trap would cost {:.2}x",
        one.as_secs_f64() / three.as_secs_f64()
    );
    Ok(())
}

fn main() -> Outcome {
    let args = Args::parse();
    on_device!(args.device, |gpu| run(gpu, &args))
}
