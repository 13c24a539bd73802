//! The shipped kernels beside CUDA C++, CUB and the driver's copy, in one run on the first GPU:
//! `cuda-rt-bench-kernels --library ./libnvcc.so`. `nvcc.cu` says how its library is built. Without
//! the library, only cuda-rt and the driver's copy are measured.
//!
//! All ways of a task have the same input and output. Each one runs once before the measurement,
//! and its output is compared with the host's. Then each round measures all of them, in an order
//! that differs by round; a way runs alone for some milliseconds before it is timed. Tables have
//! the median of the rounds.

mod library;
mod tasks;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use cuda_rt::timeline::bench::{Bench, Samples};
use cuda_rt::{Device, DeviceBuffer, Element, Stream};

use library::Library;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

cuda_rt::streams! { pub(crate) Compute; }

/// Measures the shipped kernels beside CUDA C++, CUB and the driver's copy.
#[derive(Debug, Parser)]
#[command(name = "cuda-rt-bench-kernels", version)]
struct Arguments {
    /// Tasks to run: all whose names contain one of these words.
    words: Vec<String>,
    /// The library that nvcc made of `nvcc.cu`.
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Rounds, of which the median is shown.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Divides the number of elements: 1 is for measurements.
    #[arg(long, default_value_t = 1)]
    divide: usize,
}

/// One way to do a task: its name, and the call that enqueues it once.
pub(crate) type Way<'a, I, O> = (String, Box<Call<'a, I, O>>);
pub(crate) type Call<'a, I, O> = dyn Fn(&Stream<Compute>, &Input<I>, &mut Output<O>) -> Outcome + 'a;
pub(crate) type Input<I> = [DeviceBuffer<I, Compute>; 2];
pub(crate) type Output<O> = DeviceBuffer<O, Compute>;

/// What measures tasks, and prints their tables.
pub(crate) struct Measure<'a> {
    pub(crate) stream: Stream<Compute>,
    pub(crate) library: Option<&'a Library>,
    pub(crate) multiprocessors: usize,
    pub(crate) divide: usize,
    rounds: usize,
    words: &'a [String],
}

/// What is done, on what.
pub(crate) struct Task<'a, O> {
    pub(crate) name: &'a str,
    /// Bytes that are read and written.
    pub(crate) bytes: usize,
    /// The output before each call of the comparison.
    pub(crate) before: Vec<O>,
    /// Compares an output with the host's.
    pub(crate) check: &'a dyn Fn(&[O]) -> Result<(), String>,
}

impl Measure<'_> {
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    /// Compares and measures all ways of a task. The first one is ours.
    pub(crate) fn task<I: Element, O: Element>(
        &self,
        task: &Task<'_, O>,
        input: &Input<I>,
        output: &mut Output<O>,
        ways: &[Way<'_, I, O>],
    ) -> Outcome {
        for (name, call) in ways {
            self.stream.copy_from_slice(&task.before, output)?;
            call(&self.stream, input, output)?;
            let found = self.stream.copy_to_vec(output)?;
            (task.check)(&found).map_err(|error| format!("{}, {name}: {error}", task.name))?;
        }
        let mut samples: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
        let mut repeats = vec![1; ways.len()];
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for round in 0..=self.rounds {
            let mut order: Vec<usize> = (0..ways.len()).collect();
            for last in (1..order.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                order.swap(last, (state >> 33) as usize % (last + 1));
            }
            for way in order {
                let call = &ways[way].1;
                // Some 10 ms of the way itself, and then a sample of some 5 ms.
                let bench = Bench::new()
                    .warm_up(2 * repeats[way])
                    .samples(1)
                    .repeats(repeats[way]);
                let measured: Samples = bench
                    .run(&self.stream, |stream| call(stream, input, output).map_err(Failed))
                    .map_err(|Failed(error)| error)?;
                if round == 0 {
                    // The first round only finds how often to repeat.
                    repeats[way] = ((5e6 / measured.median_ns().max(1e3)) as usize).clamp(1, 1000);
                } else {
                    samples[way].push(measured.median_ns());
                }
            }
        }
        let samples: Vec<Samples> = samples.into_iter().map(Samples::new).collect();
        println!("\n{}, {} MB\n", task.name, task.bytes / 1_000_000);
        println!("| way | µs | least | most | GB/s | its time over ours |");
        println!("|---|--:|--:|--:|--:|--:|");
        for ((name, _), samples_of) in ways.iter().zip(&samples) {
            println!(
                "| {name} | {:.1} | {:.1} | {:.1} | {:.0} | {:.3} |",
                samples_of.median_ns() / 1e3,
                samples_of.min_ns() / 1e3,
                samples_of.max_ns() / 1e3,
                task.bytes as f64 / samples_of.median_ns(),
                samples_of.median_ns() / samples[0].median_ns(),
            );
        }
        Ok(())
    }
}

/// An error of a way, which `Bench` passes on.
struct Failed(Box<dyn std::error::Error + Send + Sync>);

impl From<cuda_rt::Error> for Failed {
    fn from(error: cuda_rt::Error) -> Self {
        Self(error.into())
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome {
    let gpu = Device::open_or_simulate()?;
    if gpu.is_simulated() {
        eprintln!("no GPU: cuda-rt alone runs, on the simulated device; its times say nothing of a GPU");
    }
    let library = match &arguments.library {
        Some(path) if !gpu.is_simulated() => Some(Library::open(path)?),
        _ => None,
    };
    println!(
        "{}, driver for CUDA {}",
        gpu.properties().name,
        gpu.properties().driver_version
    );
    tasks::all(&Measure {
        stream: gpu.stream::<Compute>()?,
        library: library.as_ref(),
        multiprocessors: gpu.properties().multiprocessors as usize,
        divide: arguments.divide.max(1),
        rounds: arguments.rounds.max(1),
        words: &arguments.words,
    })
}
