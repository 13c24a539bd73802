//! Whole programs and scaling, by raw driver calls, cuda-rt, cudarc and PyTorch: `cargo xtask
//! bench`, or this executable alone on a machine without Rust. docs/bench.md explains the programs.
//!
//! All ways of a program run in alternating rounds of one run, and each result is compared with the
//! expected elements. Without a GPU, `--simulated` runs the programs of cuda-rt on the simulated
//! device.

mod machine;
mod processor;
mod programs;
mod raw;
mod report;
mod rounds;
mod scaling;
mod torch;
mod tracked;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Live};

use machine::Machine;
use programs::{ALL, Program};
use raw::Raw;
use report::{CUDARC, RAW, Report, TORCH};
use rounds::{Named, Outcome, Plan, measure};
use torch::Torch;
use tracked::Tracked;

/// Measures whole programs and the cost of operations, by raw driver calls, cuda-rt, cudarc and
/// PyTorch, on the first GPU.
#[derive(Debug, Parser)]
#[command(name = "cuda-rt-bench", version)]
struct Arguments {
    /// Programs to run, and groups of `scaling`: all whose names contain one of these words.
    words: Vec<String>,
    /// A short run, of less than a minute.
    #[arg(long)]
    quick: bool,
    /// Runs cuda-rt on the simulated device, and compares the results. Times say nothing of a GPU.
    #[arg(long)]
    simulated: bool,
    /// The folder for `bench.md` and `bench.json`.
    #[arg(long, default_value = "bench-results", value_name = "FOLDER")]
    out: PathBuf,
    /// The Python that has PyTorch.
    #[arg(long, default_value = "python3", value_name = "PATH")]
    python: String,
    /// Leaves PyTorch out.
    #[arg(long)]
    no_torch: bool,
    /// Only ways whose names contain one of these words, for example `--way raw --way cudarc`. For
    /// scaling, cuda-rt is always there.
    #[arg(long = "way", value_name = "WORD")]
    ways: Vec<String>,
    /// Measures this many rounds, whatever the time.
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<usize>,
    /// Lists the programs, and ends.
    #[arg(long)]
    list: bool,
}

impl Arguments {
    fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    fn wants_way(&self, name: &str) -> bool {
        self.ways.is_empty() || self.ways.iter().any(|word| name.contains(word.as_str()))
    }

    fn plan(&self) -> Plan {
        if let Some(rounds) = self.rounds {
            return Plan {
                budget: Duration::ZERO,
                least: rounds.max(1),
                most: rounds.max(1),
                warm_up: 0,
            };
        }
        match (self.simulated, self.quick) {
            (true, _) => Plan {
                budget: Duration::ZERO,
                least: 2,
                most: 2,
                warm_up: 0,
            },
            (_, true) => Plan {
                budget: Duration::from_millis(1500),
                least: 11,
                most: 201,
                warm_up: 3,
            },
            (_, false) => Plan {
                budget: Duration::from_secs(20),
                least: 31,
                most: 1001,
                warm_up: 10,
            },
        }
    }

    fn scaling(&self) -> scaling::Plan {
        let (rounds, calls, most) = match (self.simulated, self.quick) {
            (true, _) => (2, 10, 100),
            (_, true) => (11, 50, 10_000),
            (_, false) => (201, 100, 10_000),
        };
        let rounds = self.rounds.map_or(rounds, |rounds| rounds.max(1));
        scaling::Plan { rounds, calls, most }
    }
}

/// The ways beside cuda-rt, which need a GPU.
struct Others {
    raw: &'static Raw,
    cudarc: Tracked,
    torch: Option<Torch>,
}

fn run<D: Live>(
    arguments: &Arguments,
    gpu: &Device<D>,
    others: impl FnOnce(&mut Report) -> Outcome<Option<Others>>,
) -> Outcome {
    let mut report = Report::new(Machine::of(gpu), arguments.quick);
    let others = others(&mut report)?;
    let chosen: Vec<Program> = ALL
        .into_iter()
        .filter(|program| arguments.wants(program.name))
        .collect();
    let groups: Vec<&str> = scaling::GROUPS
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| arguments.wants(name))
        .collect();
    if chosen.is_empty() && groups.is_empty() {
        return Err("no program has such a name: `--list` lists them".into());
    }
    for program in chosen {
        let ways = ways(arguments, program, gpu, others.as_ref());
        let mut ways = ways.map_err(|error| format!("{}: {error}", program.name))?;
        if ways.is_empty() {
            continue;
        }
        let figures = measure(&mut ways, program.items, arguments.plan());
        report.program(
            program,
            figures.map_err(|error| format!("{}: {error}", program.name))?,
        );
    }
    for group in groups {
        let raw = others.as_ref().filter(|_| arguments.wants_way(RAW));
        let raw = raw.map(|others| others.raw);
        scaling::run(group, gpu, raw, arguments.scaling(), &mut report)?;
    }
    if !gpu.races().is_empty() {
        return Err("the simulated device saw a race".into());
    }
    report.write(&arguments.out)
}

/// The ways of a program that are wanted. The first is the one to which others are compared.
fn ways<'a, D: Live>(
    arguments: &Arguments,
    program: Program,
    gpu: &'a Device<D>,
    others: Option<&'a Others>,
) -> Outcome<Vec<Named<'a>>> {
    let mut ways = Vec::new();
    if let Some(others) = others
        && arguments.wants_way(RAW)
    {
        ways.extend(program.by_raw(others.raw));
    }
    ways.extend(program.typed(gpu)?);
    if let Some(others) = others {
        if arguments.wants_way(CUDARC)
            && let Some(way) = program.by_cudarc(&others.cudarc)?
        {
            ways.push((CUDARC, way));
        }
        if let Some(torch) = &others.torch
            && let Some(told) = program.for_torch()
            && arguments.wants_way(TORCH)
        {
            ways.push((TORCH, torch.open(told)?));
        }
    }
    ways.retain(|(name, _)| arguments.wants_way(name));
    Ok(ways)
}

fn others(arguments: &Arguments, report: &mut Report) -> Outcome<Option<Others>> {
    let torch = if arguments.no_torch {
        report.skip("PyTorch, as `--no-torch` asks".into());
        None
    } else {
        match Torch::start(&arguments.python) {
            Ok(torch) => {
                report.torch(&torch.version);
                Some(torch)
            }
            Err(why) => {
                report.skip(format!("PyTorch: {why}"));
                None
            }
        }
    };
    let (raw, cudarc) = (Raw::open(), Tracked::open()?);
    Ok(Some(Others { raw, cudarc, torch }))
}

fn bench(arguments: &Arguments) -> Outcome {
    if arguments.list {
        for program in ALL {
            println!("{:<19}{}", program.name, program.what);
        }
        for (name, what) in scaling::GROUPS {
            println!("{name:<19}{what}");
        }
        return Ok(());
    }
    if arguments.simulated {
        return Device::simulated(SimConfig::default(), |gpu| {
            run(arguments, &gpu, |report| {
                report.skip("raw calls, cudarc and PyTorch: they need a GPU".into());
                Ok(None)
            })
        })?;
    }
    Device::with_gpu(0, |gpu| run(arguments, &gpu, |report| others(arguments, report)))
        .map_err(|why| format!("{why}; `--simulated` runs cuda-rt's programs without a GPU"))?
}

fn main() -> ExitCode {
    match bench(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cuda-rt-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
