//! A diamond of work: two streams upload and scale, a third adds what they made, and the two bring a half of the sum back each.
//!
//! ```text
//!   Left:    upload a ─▶ scale by 2 ──┐                ┌─▶ download the first half ───┐
//!                                     ├─▶ Compute: add ┤                              ├─▶ host
//!   Right:   upload b ─▶ scale by 3 ──┘                └─▶ download the second half ──┘
//! ```
//!
//! Every edge is a handoff: fan-in by `acquire_all`, fan-out by `split_off`. Leave one out, and it does not compile.

use std::fmt;

use clap::Parser;
use cuda_rt::driver::sim::SimConfig;
use cuda_rt::{Device, Grid1, Handoff, Idle, Live, PinnedBuffer, Result, Stream, StreamTag};
use device_kernels::{add, scale};
use thiserror::Error;

use crate::choice::{DeviceChoice, Times};

cuda_rt::streams! {
    /// Uploads and scales one input, and brings back one half.
    pub Left;
    /// The same for the other.
    pub Right;
    /// Adds.
    pub Compute;
}

/// Adds two scaled arrays on three streams, and on one.
#[derive(Clone, Debug, Parser)]
#[command(name = "diamond", version)]
pub struct Args {
    /// Where to compute.
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceChoice,
    /// Elements of each array.
    #[arg(long, default_value_t = 1 << 22, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub len: u32,
}

/// What it took.
#[derive(Clone, Debug)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// Where the times come from.
    pub times: Times,
    /// Elements, all of them compared with the CPU's.
    pub len: usize,
    /// Milliseconds on three streams.
    pub diamond_ms: f32,
    /// Milliseconds on one.
    pub serial_ms: f32,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            device,
            times,
            len,
            diamond_ms,
            serial_ms,
        } = self;
        writeln!(f, "{device}: {times}")?;
        writeln!(f, "{len} elements, equal to the CPU's")?;
        writeln!(f, "three streams: {diamond_ms:8.3} ms")?;
        let gain = serial_ms / diamond_ms;
        writeln!(f, "one stream:    {serial_ms:8.3} ms, {gain:.2} times as long")
    }
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum Failure {
    /// The device failed.
    #[error("{0}")]
    Device(#[from] cuda_rt::Error),
    /// The sum is wrong.
    #[error("element {index} is {found} instead of {expected}")]
    Wrong {
        /// Which.
        index: usize,
        /// What the device made.
        found: f32,
        /// What the CPU makes.
        expected: f32,
    },
}

/// Does what the command line says.
///
/// # Errors
/// A [`Failure`].
pub fn run(args: &Args) -> Result<Report, Failure> {
    let len = args.len as usize;
    match args.device {
        DeviceChoice::Auto => compare(&Device::open_or_simulate()?, len),
        DeviceChoice::Cuda => compare(&Device::open()?, len),
        DeviceChoice::Sim => Device::simulated(SimConfig::default(), |gpu| compare(&gpu, len))?,
    }
}

type Pinned<D> = PinnedBuffer<f32, Idle<D>>;

fn compare<D: Live>(gpu: &Device<D>, len: usize) -> Result<Report, Failure> {
    let inputs = || -> Result<[Pinned<D>; 2]> {
        let mut inputs = [gpu.pinned(len)?, gpu.pinned(len)?];
        for (index, value) in inputs.iter_mut().flat_map(|input| input.iter_mut().enumerate()) {
            *value = (index % 1000) as f32;
        }
        Ok(inputs)
    };
    // The first round of each loads kernels and maps memory.
    let mut times = [0.0; 2];
    for _ in 0..2 {
        let (sum, diamond_ms) = diamond(gpu, inputs()?)?;
        check(&sum)?;
        let (sum, serial_ms) = serial(gpu, inputs()?)?;
        check(&[sum])?;
        times = [diamond_ms, serial_ms];
    }
    Ok(Report {
        device: gpu.properties().name.clone(),
        times: Times::of(gpu),
        len,
        diamond_ms: times[0],
        serial_ms: times[1],
    })
}

/// The diamond, and the milliseconds from its first upload to its last download.
fn diamond<D: Live>(gpu: &Device<D>, [a, b]: [Pinned<D>; 2]) -> Result<([Pinned<D>; 2], f32)> {
    let (left, right) = (gpu.stream::<Left<D>>()?, gpu.stream::<Right<D>>()?);
    let compute = gpu.stream::<Compute<D>>()?;
    let len = a.len();

    // Both begin when the clock does.
    let start = compute.timestamp()?;
    let started = compute.marker()?;
    left.wait_for(&started)?;
    right.wait_for(&started)?;

    let a = left.release(scaled(&left, a, 2.0)?)?;
    let b = right.release(scaled(&right, b, 3.0)?)?;
    let (a, b) = compute.acquire_all((a, b))?;
    let mut first = compute.alloc_zeroed(len)?;
    add(&compute, Grid1::covering(len), &a, &b, &mut first)?;

    let second = first.split_off(len / 2);
    let first = left.acquire(compute.release(first)?)?;
    let second = right.acquire(compute.release(second)?)?;
    let mut hosts = (
        left.adopt(gpu.pinned(first.len())?)?,
        right.adopt(gpu.pinned(second.len())?)?,
    );
    left.copy_to_host(&first, &mut hosts.0)?;
    right.copy_to_host(&second, &mut hosts.1)?;
    compute.wait_for(&left.marker()?)?;
    compute.wait_for(&right.marker()?)?;
    let end = compute.timestamp()?;

    let hosts = Handoff::join([left.release(hosts.0)?, right.release(hosts.1)?]).synchronize()?;
    Ok((hosts, end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?))
}

/// The same work in the order of one stream.
fn serial<D: Live>(gpu: &Device<D>, [a, b]: [Pinned<D>; 2]) -> Result<(Pinned<D>, f32)> {
    let compute = gpu.stream::<Compute<D>>()?;
    let len = a.len();
    let start = compute.timestamp()?;
    let a = scaled(&compute, a, 2.0)?;
    let b = scaled(&compute, b, 3.0)?;
    let mut sum = compute.alloc_zeroed(len)?;
    add(&compute, Grid1::covering(len), &a, &b, &mut sum)?;
    let mut host = compute.adopt(gpu.pinned(len)?)?;
    compute.copy_to_host(&sum, &mut host)?;
    let end = compute.timestamp()?;
    let host = compute.release(host)?.synchronize()?;
    Ok((host, end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?))
}

/// Uploads and scales.
fn scaled<S: StreamTag>(
    stream: &Stream<S>,
    source: Pinned<S::Device>,
    factor: f32,
) -> Result<cuda_rt::DeviceBuffer<f32, S>>
where
    S::Device: Live,
{
    let source = stream.adopt(source)?;
    let raw = stream.init_from_host(stream.alloc_uninit(source.len())?, &source)?;
    let mut scaled = stream.alloc_zeroed(raw.len())?;
    scale(stream, Grid1::covering(raw.len()), &raw, &mut scaled, factor)?;
    Ok(scaled)
}

fn check<D: Live>(parts: &[Pinned<D>]) -> Result<(), Failure> {
    let found = parts.iter().flat_map(|part| part.iter().copied());
    for (index, found) in found.enumerate() {
        let value = (index % 1000) as f32;
        let expected = 2.0 * value + 3.0 * value;
        if found != expected {
            return Err(Failure::Wrong {
                index,
                found,
                expected,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_right_in_many_orders_and_overlaps() {
        for (seed, len) in [1, 2, 1000, 4097].into_iter().cycle().take(16).enumerate() {
            let config = SimConfig::default().seed(seed as u64);
            let report = Device::simulated(config, |gpu| compare(&gpu, len))
                .unwrap()
                .unwrap();
            assert_eq!((report.len, report.times), (len, Times::Modelled));
        }
    }
}
