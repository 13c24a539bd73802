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
use report::{CUDARC, OURS, RAW, Report, TORCH};
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
    /// Lists the programs, and ends.
    #[arg(long)]
    list: bool,
}

impl Arguments {
    fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    fn plan(&self) -> Plan {
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
    if chosen.is_empty() {
        return Err("no program has such a name: `--list` lists them".into());
    }
    for program in chosen {
        let mut ways: Vec<Named<'_>> = Vec::new();
        if let Some(others) = &others {
            ways.push((RAW, program.by_raw(others.raw)));
        }
        ways.push((OURS, program.typed(gpu)?));
        if let Some(others) = &others {
            ways.push((CUDARC, program.by_cudarc(&others.cudarc)?));
            if let Some(torch) = &others.torch {
                ways.push((TORCH, torch.open(program)?));
            }
        }
        let figures = measure(&mut ways, program.items, arguments.plan());
        report.program(
            program,
            figures.map_err(|error| format!("{}: {error}", program.name))?,
        );
    }
    if !gpu.races().is_empty() {
        return Err("the simulated device saw a race".into());
    }
    report.write(&arguments.out)
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
            println!("{:<16}{}", program.name, program.what);
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
