//! A diamond of work: two streams upload and compute, a third adds what they made, and the two
//! bring a half of the sum back each.
//!
//! ```text
//!   Left:    upload a ─▶ roots ──┐                ┌─▶ download the first half ───┐
//!                                ├─▶ Compute: add ┤                              ├─▶ host
//!   Right:   upload b ─▶ roots ──┘                └─▶ download the second half ──┘
//! ```
//!
//! Every edge is a handoff: fan-in by `acquire_all`, fan-out by `split_off`. Leave one out, and it
//! does not compile.
//!
//! What it gains is the branches that run side by side: their kernels take long and have few
//! threads, so that neither fills the GPU, and one branch's upload runs beside the other's kernel.
//! At most that is twice, where the branches are all there is. Three things limit it. Uploads share
//! one copy engine, and so do downloads: a diamond of copies gains nothing (`--steps 1`). Kernels
//! that fill the GPU take turns whatever their streams are (`--len` in the millions). And each
//! handoff costs an event and a wait, which a program of microseconds feels.

use std::fmt;

use clap::Parser;
use cuda_rt::simulator::{Model, SimConfig};
use cuda_rt::{Device, Grid1, Handoff, Idle, Live, OpenError, PinnedBuffer, Result, Stream, StreamTag};
use device_kernels::{add, roots};
use thiserror::Error;

use crate::choice::{DeviceChoice, Times};

cuda_rt::streams! {
    /// Uploads one input and takes its roots, and brings back one half.
    pub Left;
    /// The same for the other.
    pub Right;
    /// Adds.
    pub Compute;
}

/// Adds the roots of two arrays on three streams, and on one.
#[derive(Clone, Debug, Parser)]
#[command(name = "diamond", version)]
pub struct Args {
    /// Where to compute.
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceChoice,
    /// Elements of each array.
    #[arg(long, default_value_t = 1 << 13, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub len: u32,
    /// Steps of Newton's method that each root takes.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub steps: u32,
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
    /// Steps of each root.
    pub steps: u32,
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
            steps,
            diamond_ms,
            serial_ms,
        } = self;
        writeln!(f, "{device}: {times}")?;
        writeln!(f, "{len} elements, {steps} steps each, equal to the CPU's")?;
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
    /// There is no such device, or it can't be used.
    #[error("{0}")]
    Open(#[from] OpenError),
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
    match args.device {
        DeviceChoice::Auto => match Device::open() {
            Ok(gpu) => compare(&gpu, args),
            Err(OpenError::NoGpu(_)) => simulated(args),
            Err(error) => Err(error.into()),
        },
        DeviceChoice::Cuda => compare(&Device::open()?, args),
        DeviceChoice::Sim => simulated(args),
    }
}

/// The model of a device on which kernels run side by side if they do not fill it, and a step takes
/// 35 ns.
fn simulated(args: &Args) -> Result<Report, Failure> {
    let model = Model {
        kernel_parts: 32,
        ..Model::default()
    };
    // Waves of threads, one after another; within one, threads cost nothing more.
    let waves = u64::from(args.len).div_ceil(Model::RESIDENT_THREADS);
    let kernel_ns = 35.0 * f64::from(args.steps) * waves as f64;
    let config = SimConfig::default().model(model).kernel_ns_per_thread(
        "device_kernels::elementwise::roots",
        kernel_ns / f64::from(args.len),
    );
    Device::simulated(config, |gpu| compare(&gpu, args))?
}

type Pinned<D> = PinnedBuffer<f32, Idle<D>>;

fn compare<D: Live>(gpu: &Device<D>, args: &Args) -> Result<Report, Failure> {
    let (len, steps) = (args.len as usize, args.steps);
    let inputs = || -> Result<[Pinned<D>; 2]> {
        let mut inputs = [gpu.pinned(len)?, gpu.pinned(len)?];
        for (index, value) in inputs.iter_mut().flat_map(|input| input.iter_mut().enumerate()) {
            *value = (1 + index % VALUES) as f32;
        }
        Ok(inputs)
    };
    // The first round of each loads kernels and maps memory.
    let mut times = [0.0; 2];
    for _ in 0..2 {
        let (sum, diamond_ms) = diamond(gpu, inputs()?, steps)?;
        check(&sum, steps)?;
        let (sum, serial_ms) = serial(gpu, inputs()?, steps)?;
        check(&[sum], steps)?;
        times = [diamond_ms, serial_ms];
    }
    Ok(Report {
        device: gpu.properties().name.clone(),
        times: Times::of(gpu),
        len,
        steps,
        diamond_ms: times[0],
        serial_ms: times[1],
    })
}

/// The diamond, and the milliseconds from its first upload to its last download.
fn diamond<D: Live>(gpu: &Device<D>, [a, b]: [Pinned<D>; 2], steps: u32) -> Result<([Pinned<D>; 2], f32)> {
    let (left, right) = (gpu.stream::<Left<D>>()?, gpu.stream::<Right<D>>()?);
    let compute = gpu.stream::<Compute<D>>()?;
    let len = a.len();

    // Both begin when the clock does.
    let start = compute.record_timed_event()?;
    let started = compute.record_event()?;
    left.wait_event(&started)?;
    right.wait_event(&started)?;

    let a = left.release(rooted(&left, a, steps)?)?;
    let b = right.release(rooted(&right, b, steps)?)?;
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
    compute.wait_event(&left.record_event()?)?;
    compute.wait_event(&right.record_event()?)?;
    let end = compute.record_timed_event()?;

    let hosts = Handoff::join([left.release(hosts.0)?, right.release(hosts.1)?]).synchronize()?;
    Ok((hosts, end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?))
}

/// The same work in the order of one stream.
fn serial<D: Live>(gpu: &Device<D>, [a, b]: [Pinned<D>; 2], steps: u32) -> Result<(Pinned<D>, f32)> {
    let compute = gpu.stream::<Compute<D>>()?;
    let len = a.len();
    let start = compute.record_timed_event()?;
    let a = rooted(&compute, a, steps)?;
    let b = rooted(&compute, b, steps)?;
    let mut sum = compute.alloc_zeroed(len)?;
    add(&compute, Grid1::covering(len), &a, &b, &mut sum)?;
    let mut host = compute.adopt(gpu.pinned(len)?)?;
    compute.copy_to_host(&sum, &mut host)?;
    let end = compute.record_timed_event()?;
    let host = compute.release(host)?.synchronize()?;
    Ok((host, end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?))
}

/// Uploads, and takes the roots.
fn rooted<S: StreamTag>(
    stream: &Stream<S>,
    source: Pinned<S::Device>,
    steps: u32,
) -> Result<cuda_rt::DeviceBuffer<f32, S>>
where
    S::Device: Live,
{
    let source = stream.adopt(source)?;
    let raw = stream.init_from_host(stream.alloc_uninit(source.len())?, &source)?;
    let mut rooted = stream.alloc_zeroed(raw.len())?;
    roots(stream, Grid1::covering(raw.len()), &raw, &mut rooted, steps)?;
    Ok(rooted)
}

/// Different values among the elements.
const VALUES: usize = 1000;

fn check<D: Live>(parts: &[Pinned<D>], steps: u32) -> Result<(), Failure> {
    let root = |x: usize| (0..steps).fold(1.0, |v: f32, _| 0.5 * (v + x as f32 / v));
    let sums: Vec<f32> = (1..=VALUES).map(root).map(|root| root + root).collect();
    let found = parts.iter().flat_map(|part| part.iter().copied());
    for (index, found) in found.enumerate() {
        let expected = sums[index % VALUES];
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

    fn args(len: u32, steps: u32) -> Args {
        let device = DeviceChoice::Sim;
        Args { device, len, steps }
    }

    #[test]
    fn the_sum_is_right_in_many_orders() {
        for (seed, len) in [1, 2, 1000, 4097].into_iter().cycle().take(16).enumerate() {
            let config = SimConfig::default().seed(seed as u64);
            let report = Device::simulated(config, |gpu| compare(&gpu, &args(len, 9)))
                .unwrap()
                .unwrap();
            assert_eq!((report.len, report.times), (len as usize, Times::Modelled));
        }
    }

    /// Long kernels of few threads gain nearly twice; with short ones the copies are what is left,
    /// which share their engines.
    #[test]
    fn branches_gain_where_neither_fills_the_device() {
        let gain = |len, steps| {
            let report = simulated(&args(len, steps)).unwrap();
            report.serial_ms / report.diamond_ms
        };
        let long = gain(1 << 13, 2000);
        assert!((1.5..2.0).contains(&long), "{long}");
        let copies = gain(1 << 20, 1);
        assert!((0.7..1.3).contains(&copies), "{copies}");
    }
}
