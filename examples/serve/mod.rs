//! A service: several threads send requests to one GPU. Each request is an upload, a kernel and a
//! download.
//!
//! The requests are served in three ways: all on one stream, on a pool of streams, and with a
//! second pool of urgent streams for requests that cannot wait. The number of streams is known only
//! at run time, so the streams have no names. A request asks the pool for a stream, and its result
//! leaves the pool's closure as a handoff.

use std::fmt;
use std::time::{Duration, Instant};

use clap::Parser;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Grid1, Idle, Live, PinnedBuffer, Priority, Result, StreamPool};
use device_kernels::process;

use crate::choice::{DeviceChoice, Times};
use turns::{Turn, Turns};

mod turns;

/// Serves requests on one stream, on a pool of streams, and with urgent streams.
#[derive(Clone, Debug, Parser)]
#[command(name = "serve", version)]
pub struct Args {
    /// The device to compute on.
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceChoice,
    /// Number of threads that send requests. A thread sends its next request when the last is
    /// answered. One more thread sends urgent requests.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Number of streams in the pool.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub streams: u16,
    /// Number of requests that each thread sends.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub requests: u32,
    /// Number of elements in a request.
    #[arg(long, default_value_t = 1 << 18, value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    pub len: u32,
}

/// Latencies of requests, sorted.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// The latency that `percent` percent of all requests do not exceed, by nearest rank.
    pub fn percentile(&self, percent: f64) -> Duration {
        let rank = (percent / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0
            .get(rank.clamp(1, self.0.len().max(1)) - 1)
            .copied()
            .unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |percent| self.percentile(percent).as_secs_f64() * 1e6;
        let (p50, p95, p99) = (us(50.0), us(95.0), us(99.0));
        write!(f, "p50 {p50:7.0}  p95 {p95:7.0}  p99 {p99:7.0} us")
    }
}

/// The results of one way of serving.
#[derive(Clone, Debug)]
pub struct Way {
    /// The way's name.
    pub name: &'static str,
    /// Requests answered in each second, urgent ones included.
    pub per_second: f64,
    /// Latencies of ordinary requests.
    pub ordinary: Latencies,
    /// Latencies of urgent requests.
    pub urgent: Latencies,
}

/// The report of all ways.
#[derive(Clone, Debug)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// The source of the times.
    pub times: Times,
    /// The options of the run.
    pub args: Args,
    /// One stream, a pool, and a pool with urgent streams.
    pub ways: [Way; 3],
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Args {
            threads,
            streams,
            requests,
            len,
            ..
        } = self.args;
        writeln!(f, "{}: {}", self.device, self.times)?;
        writeln!(
            f,
            "{threads} threads and an urgent one, {requests} requests each of {len} elements, {streams} streams"
        )?;
        for way in &self.ways {
            writeln!(f, "{:<20} {:9.0} requests/s", way.name, way.per_second)?;
            writeln!(f, "  ordinary           {}", way.ordinary)?;
            writeln!(f, "  urgent             {}", way.urgent)?;
        }
        if self.times == Times::Modelled {
            writeln!(
                f,
                "the model has no priorities: urgent streams are only separate streams"
            )?;
        }
        Ok(())
    }
}

/// Runs the example with the command line's options.
///
/// # Errors
/// Errors of the device.
pub fn run(args: &Args) -> Result<Report> {
    match args.device {
        DeviceChoice::Auto => serve(&Device::open_or_simulate()?, args),
        DeviceChoice::Cuda => serve(&Device::open()?, args),
        DeviceChoice::Sim => Device::simulated(SimConfig::default(), |gpu| serve(&gpu, args))?,
    }
}

fn serve<D: Live>(gpu: &Device<D>, args: &Args) -> Result<Report> {
    let one = gpu.stream_pool(1)?;
    let pool = gpu.stream_pool(args.streams.into())?;
    let urgent = gpu.stream_pool_with_priority(1, Priority::High)?;
    // Load kernels and map memory before the timed part.
    let warm_up = Args {
        requests: 3,
        ..args.clone()
    };
    way("", gpu, &warm_up, &pool, &urgent)?;
    Ok(Report {
        device: gpu.properties().name.clone(),
        times: Times::of(gpu),
        args: args.clone(),
        ways: [
            way("one stream", gpu, args, &one, &one)?,
            way("a pool", gpu, args, &pool, &pool)?,
            way("and urgent streams", gpu, args, &pool, &urgent)?,
        ],
    })
}

/// The present time, by the host's clock, or by the model of a simulated device.
#[derive(Clone, Copy)]
struct Clock<'a, D> {
    gpu: &'a Device<D>,
    began: Instant,
}

impl<D: Live> Clock<'_, D> {
    fn now(&self) -> Duration {
        match self.gpu.simulator() {
            Some(simulator) => Duration::from_nanos(simulator.host_now_ns()),
            None => self.began.elapsed(),
        }
    }
}

/// Serves all requests, from several threads.
fn way<D: Live>(
    name: &'static str,
    gpu: &Device<D>,
    args: &Args,
    ordinary: &StreamPool<D>,
    urgent: &StreamPool<D>,
) -> Result<Way> {
    let clock = &Clock {
        gpu,
        began: Instant::now(),
    };
    let threads = usize::from(args.threads);
    let turns = &Turns::new(threads + 1);
    let client = |thread, pool| move || client(clock, &turns.of(thread), args, pool);
    let (ordinary, urgent) = std::thread::scope(|scope| -> Result<_> {
        let others: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(client(thread, ordinary)))
            .collect();
        let urgent = scope.spawn(client(threads, urgent));
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Served>>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let ordinary = others.into_iter().map(join).collect::<Result<Vec<_>>>()?;
        Ok((ordinary, join(urgent)?))
    })?;
    let began = ordinary.iter().chain([&urgent]).map(|served| served.began).min();
    let ended = ordinary.iter().chain([&urgent]).map(|served| served.ended).max();
    let took = ended.unwrap_or_default() - began.unwrap_or_default();
    let requests = (u64::from(args.threads) + 1) * u64::from(args.requests);
    Ok(Way {
        name,
        per_second: requests as f64 / took.as_secs_f64(),
        ordinary: Latencies::new(ordinary.into_iter().flat_map(|served| served.latencies).collect()),
        urgent: Latencies::new(urgent.latencies),
    })
}

/// The results of one thread.
struct Served {
    latencies: Vec<Duration>,
    /// When the thread began; of modelled times, the same for all threads.
    began: Duration,
    /// When the thread's last request was answered.
    ended: Duration,
}

/// Sends requests one after another.
fn client<D: Live>(
    clock: &Clock<'_, D>,
    turn: &Turn<'_>,
    args: &Args,
    pool: &StreamPool<D>,
) -> Result<Served> {
    let len = args.len as usize;
    let began = clock.now();
    let mut latencies = Vec::new();
    let mut buffers = (clock.gpu.pinned(len)?, clock.gpu.pinned(len)?);
    for number in 0..args.requests {
        buffers.0[0] = number as f32;
        if clock.gpu.is_simulated() {
            turn.wait(clock.now());
        }
        let asked = clock.now();
        buffers = answer(pool, buffers)?;
        latencies.push(clock.now().saturating_sub(asked));
        assert_eq!(buffers.1[0], processed(number as f32), "request {number}");
    }
    Ok(Served {
        latencies,
        began,
        ended: clock.now(),
    })
}

const GAIN: f32 = 0.5;
const OFFSET: f32 = 1.0;

/// The kernel's result for `value`.
fn processed(value: f32) -> f32 {
    (0..16).fold(value, |value, _| value.mul_add(GAIN, OFFSET))
}

type Buffers<D> = (PinnedBuffer<f32, Idle<D>>, PinnedBuffer<f32, Idle<D>>);

/// Serves one request on a free stream of the pool, and then waits for the request's own result
/// only.
fn answer<D: Live>(pool: &StreamPool<D>, (input, output): Buffers<D>) -> Result<Buffers<D>> {
    let pending = pool.with(|stream| {
        let (input, mut output) = stream.adopt((input, output))?;
        let x = stream.init_from_host(stream.alloc_uninit(input.len())?, &input)?;
        let mut y = stream.alloc_zeroed(input.len())?;
        process(stream, Grid1::covering(x.len()), &x, &mut y, GAIN, OFFSET)?;
        stream.copy_to_host(&y, &mut output)?;
        stream.release((input, output))
    })?;
    pending.synchronize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let ms = Duration::from_millis;
        let all = Latencies::new((1..=100).rev().map(ms).collect());
        assert_eq!(
            [0.0, 50.0, 95.0, 99.0, 100.0].map(|p| all.percentile(p)),
            [1, 50, 95, 99, 100].map(ms)
        );
        assert_eq!(Latencies::new(vec![ms(7)]).percentile(99.0), ms(7));
        assert_eq!(Latencies::default().percentile(50.0), Duration::ZERO);
    }

    #[test]
    fn every_request_is_answered_and_a_pool_is_faster() {
        let args = Args {
            device: DeviceChoice::Sim,
            threads: 4,
            streams: 4,
            requests: 12,
            len: 1 << 16,
        };
        let report = run(&args).unwrap();
        let [one, pool, _] = &report.ways;
        assert_eq!((one.ordinary.0.len(), one.urgent.0.len()), (48, 12));
        assert!(
            pool.per_second > one.per_second * 1.2,
            "{} against {}",
            pool.per_second,
            one.per_second
        );
        assert!(report.to_string().contains("modelled"));
    }
}
