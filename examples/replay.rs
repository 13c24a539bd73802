//! A chain of small kernels: launched one by one, and replayed as a graph with a new factor each
//! time.
//!
//! The host needs longer to launch a small kernel than the GPU needs to run it, so the GPU waits
//! for the next launch. A graph takes one launch for the whole chain. A changed value is changed in
//! the graph, without a new instantiation: the body from which the graph was captured runs again,
//! and only the launches that differ cost a call.

#![forbid(unsafe_code)]

use clap::Parser;
use cuda_rt::{Device, DeviceSlice, Grid1, Live, Stream, StreamTag};
use cuda_rt_examples::cli::{DeviceChoice, Outcome, heading};
use cuda_rt_examples::on_device;
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
}

/// Runs a chain of kernels one by one and as a graph.
#[derive(Parser)]
struct Args {
    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Number of kernels in a chain.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kernels: u32,
    /// Number of chains.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    chains: u32,
}

const ELEMENTS: usize = 1024;

/// Scales by `factor`, and then by 1 in the rest of the chain.
fn chain<S: StreamTag>(
    stream: &Stream<S>,
    (x, y): (&mut DeviceSlice<f32, S>, &mut DeviceSlice<f32, S>),
    kernels: u32,
    factor: f32,
) -> cuda_rt::Result<()> {
    let (mut from, mut to) = (x, y);
    for kernel in 0..kernels {
        let factor = if kernel == 0 { factor } else { 1.0 };
        scale(stream, Grid1::covering(ELEMENTS), from, to, factor)?;
        std::mem::swap(&mut from, &mut to);
    }
    Ok(())
}

/// The factor of each chain: 1, 2, 1/2, 1, 2, …. Three chains together leave the data unchanged.
fn factor(number: u32) -> f32 {
    [1.0, 2.0, 0.5][number as usize % 3]
}

fn run<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome {
    println!("{}", heading(gpu));
    let compute = gpu.stream::<Compute<D>>()?;
    let ones = || compute.init_filled(compute.alloc_uninit(ELEMENTS)?, 1.0_f32);
    // An even number of kernels, so that each chain ends in the buffer where the next begins.
    let (kernels, chains) = (args.kernels.next_multiple_of(2), args.chains);
    println!("{chains} chains of {kernels} kernels");

    let (mut x, mut y) = (ones()?, ones()?);
    // The first launch loads the kernel.
    chain(&compute, (&mut x, &mut y), kernels, 1.0)?;
    compute.synchronize()?;
    let start = compute.record_timed_event()?;
    for number in 0..chains {
        chain(&compute, (&mut x, &mut y), kernels, factor(number))?;
    }
    let end = compute.record_timed_event()?;
    let one_by_one = end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?;

    let mut graph = compute.capture((ones()?, ones()?), |stream, (mut x, mut y)| {
        chain(stream, (&mut x, &mut y), kernels, 1.0)
    })?;
    graph.launch(&compute)?;
    compute.synchronize()?;
    let start = compute.record_timed_event()?;
    for number in 0..chains {
        graph.update(|stream, (mut x, mut y)| chain(stream, (&mut x, &mut y), kernels, factor(number)))?;
        graph.launch(&compute)?;
    }
    let end = compute.record_timed_event()?;
    let replayed = end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?;

    let expected: f32 = (0..chains).map(factor).product();
    for data in [x, graph.into_inner().0] {
        let mut host = compute.adopt(gpu.pinned(ELEMENTS)?)?;
        compute.copy_to_host(&data, &mut host)?;
        let host = compute.release(host)?.synchronize()?;
        if let Some(wrong) = host.iter().find(|value| **value != expected) {
            return Err(format!("an element is {wrong} instead of {expected}").into());
        }
    }
    println!("one by one: {one_by_one:9.3} ms");
    println!(
        "replayed:   {replayed:9.3} ms, {:.2} times as fast, with the factor set each time",
        one_by_one / replayed
    );
    Ok(())
}

fn main() -> Outcome {
    let args = Args::parse();
    on_device!(args.device, |gpu| run(gpu, &args))
}
