//! A diamond of work: two streams upload and compute, a third stream adds their results, and each
//! of the two downloads half of the sum.
//!
//! ```text
//!   Left:    upload a ─▶ roots ──┐                ┌─▶ download the first half ───┐
//!                                ├─▶ Compute: add ┤                              ├─▶ host
//!   Right:   upload b ─▶ roots ──┘                └─▶ download the second half ──┘
//! ```
//!
//! Every edge is a handoff: fan-in by `acquire_all`, fan-out by `split_off`. Without one of the
//! handoffs the program does not compile.
//!
//! The diamond is faster than one stream because its branches run side by side. Their kernels take
//! long and have few threads, so neither fills the GPU, and one branch's upload runs beside the
//! other branch's kernel. The gain is at most a factor of 2, if the branches are all the work.
//! Three things limit the gain. All uploads share one copy engine, and all downloads share another,
//! so a diamond of copies gains nothing (`--steps 1`). Kernels that fill the GPU take turns on any
//! streams (`--len` in the millions). Each handoff costs an event and a wait, which matters if the
//! work takes only microseconds.

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
    /// Uploads the other input and takes its roots, and brings back the other half.
    pub Right;
    /// Adds the roots.
    pub Compute;
}

/// Adds the roots of two arrays on three streams, and on one.
#[derive(Clone, Debug, Parser)]
#[command(name = "diamond", version)]
pub struct Args {
    /// The device to compute on.
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceChoice,
    /// Number of elements in each array.
    #[arg(long, default_value_t = 1 << 13, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub len: u32,
    /// Number of steps of Newton's method for each root.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub steps: u32,
}

/// The report of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// The source of the times.
    pub times: Times,
    /// Number of elements; all were compared with the CPU's results.
    pub len: usize,
    /// Number of steps for each root.
    pub steps: u32,
    /// Time on three streams, in milliseconds.
    pub diamond_ms: f32,
    /// Time on one stream, in milliseconds.
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

/// The reason why there is no report.
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
        /// The element's index.
        index: usize,
        /// The device's result.
        found: f32,
        /// The CPU's result.
        expected: f32,
    },
}

/// Runs the example with the command line's options.
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

/// Settings of a simulated device. Kernels that do not fill it run side by side, and a step takes
/// 35 ns.
fn simulated(args: &Args) -> Result<Report, Failure> {
    let model = Model {
        kernel_parts: 32,
        ..Model::default()
    };
    // Waves of threads run one after another. More threads in a wave cost no more time.
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
    // The first round of each way loads kernels and maps memory. Modelled times are the same in
    // each round.
    let rounds = if gpu.is_simulated() { 1 } else { 2 };
    let mut times = [0.0; 2];
    for _ in 0..rounds {
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

/// Runs the diamond. Also returns the milliseconds from its first upload to its last download.
fn diamond<D: Live>(gpu: &Device<D>, [a, b]: [Pinned<D>; 2], steps: u32) -> Result<([Pinned<D>; 2], f32)> {
    let (left, right) = (gpu.stream::<Left<D>>()?, gpu.stream::<Right<D>>()?);
    let compute = gpu.stream::<Compute<D>>()?;
    let len = a.len();

    // Both branches begin when the clock starts.
    let start = compute.record_timed_event()?;
    let started = compute.record_event()?;
    left.wait_event(&started)?;
    right.wait_event(&started)?;

    let a = left.release(rooted(&left, a, steps)?)?;
    let b = right.release(rooted(&right, b, steps)?)?;
    let (a, b) = compute.acquire_all((a, b))?;
    let sum = compute.alloc_uninit(len)?;
    let mut first = add(&compute, Grid1::covering(len), &a, &b, sum)?;

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

/// Runs the same work on one stream.
fn serial<D: Live>(gpu: &Device<D>, [a, b]: [Pinned<D>; 2], steps: u32) -> Result<(Pinned<D>, f32)> {
    let compute = gpu.stream::<Compute<D>>()?;
    let len = a.len();
    let start = compute.record_timed_event()?;
    let a = rooted(&compute, a, steps)?;
    let b = rooted(&compute, b, steps)?;
    let sum = compute.alloc_uninit(len)?;
    let sum = add(&compute, Grid1::covering(len), &a, &b, sum)?;
    let mut host = compute.adopt(gpu.pinned(len)?)?;
    compute.copy_to_host(&sum, &mut host)?;
    let end = compute.record_timed_event()?;
    let host = compute.release(host)?.synchronize()?;
    Ok((host, end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?))
}

/// Uploads an array and takes its roots.
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

/// An array whose elements have different values.
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

    /// Long kernels of few threads gain nearly a factor of 2. With short kernels the copies take
    /// most of the time, and they share their engines.
    #[test]
    fn branches_gain_if_neither_fills_the_device() {
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
