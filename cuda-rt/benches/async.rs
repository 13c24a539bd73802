//! Compares the cost of a wait in a task with the cost of a blocked thread, on the first GPU:
//! `cargo bench -p cuda-handoff --bench async`.
//!
//! - *One at a time*: the time from the end of `release` until the waiting code continues, for work
//!   of several lengths, and the processor time of the whole process in that time. All ways are
//!   measured in alternating rounds of one run.
//! - *Many in flight*: the time from the last release until all of thousands of handoffs on four
//!   streams are done.
//!
//! Prints tables, and the same figures as one line of JSON. Without a GPU it measures nothing, and
//! says so. With `--simulated` it runs a little of each on the simulated device, which shows only
//! that the benchmark runs.

#[path = "../tests/block_on/mod.rs"]
mod block_on;

use std::future::{Future, IntoFuture};
use std::hint::spin_loop;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cuda_rt::{Device, DeviceBuffer, Handoff, OpenError, Query, Result, Stream};

use block_on::block_on;

cuda_rt::streams! { First; Second; Third; Fourth; }

type Buffers = DeviceBuffer<u8>;
type Way = (&'static str, fn(Handoff<Buffers>) -> Result<Buffers>);

const WAYS: [Way; 4] = [
    ("synchronize", |handoff| handoff.synchronize()),
    ("query, spinning", |mut handoff| {
        loop {
            match handoff.query()? {
                Query::Done(bundle) => return Ok(bundle),
                Query::Pending(again) => handoff = again,
            }
            spin_loop();
        }
    }),
    ("await", block_on),
    ("on_done and a channel", |handoff| {
        let (sender, receiver) = channel();
        handoff.on_done(move |bundle| drop(sender.send(bundle)))?;
        receiver.recv().expect("the closure runs")
    }),
];

/// The processor time of all present threads, in ns, if the system reports it. Sleeps first,
/// because the system counts a thread's time when the thread stops running.
fn processor_ns() -> Option<u64> {
    thread::sleep(Duration::from_millis(1));
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    };
    Some(tasks.filter_map(of).sum())
}

#[derive(Default)]
struct Samples {
    wall_us: Vec<f64>,
    processor_us: Vec<f64>,
}

impl Samples {
    fn row(&mut self) -> [f64; 4] {
        let quantile = |values: &mut Vec<f64>, q: f64| {
            values.sort_by(f64::total_cmp);
            values[(q * (values.len() - 1) as f64) as usize]
        };
        let wall = &mut self.wall_us;
        let (half, most, last) = (quantile(wall, 0.5), quantile(wall, 0.99), quantile(wall, 1.0));
        [half, most, last, quantile(&mut self.processor_us, 0.5)]
    }
}

/// Fills of `bytes`, `times` in a row, and one wait.
fn one_at_a_time(
    gpu: &Device,
    bytes: usize,
    times: usize,
    rounds: usize,
    json: &mut Vec<String>,
) -> Result<()> {
    let stream = gpu.stream::<First>()?;
    let mut buffer = Some(stream.release(stream.alloc_zeroed::<u8>(bytes)?)?.synchronize()?);
    let mut samples: [Samples; WAYS.len()] = Default::default();
    for round in 0..rounds + 10 {
        for offset in 0..WAYS.len() {
            let way = (round + offset) % WAYS.len();
            // Rounds measure wall time and processor time in turn, because reading the processor
            // time takes time itself. The processor time includes the calls that enqueue the work.
            let before = (round % 2 == 0).then(processor_ns).flatten();
            let mut device = stream.adopt(buffer.take().expect("put back below"))?;
            for _ in 0..times {
                stream.fill(&mut device, round as u8)?;
            }
            let handoff = stream.release(device)?;
            let start = Instant::now();
            buffer = Some(WAYS[way].1(handoff)?);
            let wall = start.elapsed();
            // The first rounds warm up.
            if round < 10 {
                continue;
            }
            if let (Some(before), Some(after)) = (before, processor_ns()) {
                samples[way].processor_us.push((after - before) as f64 / 1e3);
            } else {
                samples[way].wall_us.push(wall.as_nanos() as f64 / 1e3);
            }
        }
    }
    println!("\none at a time, {times} fill(s) of {bytes} bytes, {rounds} rounds");
    println!(
        "{:24} {:>12} {:>12} {:>12} {:>14}",
        "", "median µs", "p99 µs", "most µs", "processor µs"
    );
    for ((name, _), samples) in WAYS.iter().zip(&mut samples) {
        if samples.processor_us.is_empty() {
            samples.processor_us.push(f64::NAN);
        }
        let [half, most, last, processor] = samples.row();
        println!("{name:24} {half:12.2} {most:12.2} {last:12.2} {processor:14.2}");
        json.push(format!(
            r#"{{"case":"one","bytes":{bytes},"fills":{times},"way":"{name}","median_us":{half:.3},"p99_us":{most:.3},"max_us":{last:.3},"processor_us":{processor:.3}}}"#
        ));
    }
    Ok(())
}

/// Tells which of many tasks was woken.
struct Woken(usize, Mutex<Sender<usize>>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let sender = self.1.lock().expect("no panic while it is held");
        let _ = sender.send(self.0);
    }
}

/// Awaits all handoffs at once, each in a task of its own. A task is polled only after it was
/// woken.
fn await_all(handoffs: Vec<Handoff<Buffers>>) -> Result<()> {
    let (sender, woken) = channel();
    let mut pending = handoffs.len();
    let mut tasks = Vec::with_capacity(pending);
    for (number, handoff) in handoffs.into_iter().enumerate() {
        let waker = Waker::from(Arc::new(Woken(number, Mutex::new(sender.clone()))));
        tasks.push((handoff.into_future(), waker));
        sender.send(number).expect("the receiver is here");
    }
    while pending > 0 {
        let (future, waker) = &mut tasks[woken.recv().expect("a sender is here")];
        if let Poll::Ready(bundle) = Pin::new(future).poll(&mut Context::from_waker(waker)) {
            pending -= 1;
            bundle?;
        }
    }
    Ok(())
}

type All = (&'static str, fn(Vec<Handoff<Buffers>>) -> Result<()>);

const ALL: [All; 4] = [
    ("synchronize each in turn", |handoffs| {
        handoffs
            .into_iter()
            .try_for_each(|handoff| handoff.synchronize().map(drop))
    }),
    ("await each in turn", |handoffs| {
        handoffs
            .into_iter()
            .try_for_each(|handoff| block_on(handoff).map(drop))
    }),
    ("await all, a task each", await_all),
    ("on_done for each", |handoffs| {
        let (sender, receiver) = channel();
        for handoff in handoffs {
            let sender = sender.clone();
            handoff.on_done(move |bundle| drop(sender.send(bundle.map(drop))))?;
        }
        drop(sender);
        receiver.into_iter().collect()
    }),
];

/// A handoff of one small fill, on one of four streams.
fn small(
    streams: &(Stream<First>, Stream<Second>, Stream<Third>, Stream<Fourth>),
    number: usize,
) -> Result<Handoff<Buffers>> {
    macro_rules! on {
        ($stream:expr) => {{
            let mut buffer = $stream.alloc_zeroed::<u8>(4096)?;
            $stream.fill(&mut buffer, 1)?;
            $stream.release(buffer)
        }};
    }
    match number % 4 {
        0 => on!(streams.0),
        1 => on!(streams.1),
        2 => on!(streams.2),
        _ => on!(streams.3),
    }
}

fn many_in_flight(gpu: &Device, count: usize, rounds: usize, json: &mut Vec<String>) -> Result<()> {
    let streams = (gpu.stream()?, gpu.stream()?, gpu.stream()?, gpu.stream()?);
    let mut samples: [Samples; ALL.len()] = Default::default();
    for round in 0..rounds + 2 {
        for offset in 0..ALL.len() {
            let way = (round + offset) % ALL.len();
            let before = processor_ns();
            let handoffs: Vec<_> = (0..count)
                .map(|number| small(&streams, number))
                .collect::<Result<_>>()?;
            let start = Instant::now();
            ALL[way].1(handoffs)?;
            let wall = start.elapsed();
            if round < 2 {
                continue;
            }
            samples[way].wall_us.push(wall.as_nanos() as f64 / 1e3);
            if let (Some(before), Some(after)) = (before, processor_ns()) {
                samples[way].processor_us.push((after - before) as f64 / 1e3);
            }
        }
    }
    println!(
        "\n{count} in flight on four streams, {rounds} rounds, from the last release until all are done"
    );
    println!(
        "{:24} {:>12} {:>16} {:>14}",
        "", "median µs", "µs a handoff", "processor µs"
    );
    for ((name, _), samples) in ALL.iter().zip(&mut samples) {
        if samples.processor_us.is_empty() {
            samples.processor_us.push(f64::NAN);
        }
        let [half, _, _, processor] = samples.row();
        let each = half / count as f64;
        println!("{name:24} {half:12.1} {each:16.3} {processor:14.1}");
        json.push(format!(
            r#"{{"case":"many","count":{count},"way":"{name}","median_us":{half:.1},"us_each":{each:.4},"processor_us":{processor:.1}}}"#
        ));
    }
    Ok(())
}

fn run(gpu: &Device, small_only: bool) -> Result<()> {
    let mut json = Vec::new();
    let (sizes, rounds, count): (&[(usize, usize)], _, _) = if small_only {
        (&[(4096, 1)], 10, 256)
    } else {
        (
            &[(4, 1), (64 << 20, 1), (1 << 30, 1), (1 << 30, 8), (1 << 30, 64)],
            300,
            4096,
        )
    };
    for &(bytes, times) in sizes {
        one_at_a_time(gpu, bytes, times, rounds.min(3000 / times), &mut json)?;
    }
    many_in_flight(gpu, count, rounds.min(30), &mut json)?;
    println!(
        "\n{{\"bench\":\"async\",\"device\":\"{}\",\"rows\":[{}]}}",
        gpu.properties().name,
        json.join(",")
    );
    Ok(())
}

fn main() -> Result<()> {
    match Device::open() {
        Ok(gpu) => run(&gpu, false),
        Err(_) if std::env::args().any(|argument| argument == "--simulated") => {
            println!("SIMULATED: these figures say nothing of a GPU");
            run(&Device::open_or_simulate()?, true)
        }
        Err(OpenError::NoGpu(why)) => {
            println!("SKIPPED: {why}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
