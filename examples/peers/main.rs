//! Copies between two GPUs, and sums over several: measures their rates with a link and without,
//! and compares them with raw calls.
//!
//! ```text
//! cargo run --release -p cuda-rt-examples --features nccl --example peers
//! cargo run --release -p cuda-rt-examples --example peers -- --device sim
//! ```
//!
//! Each device copies the other device's memory. A handoff goes to the stream that copies and comes
//! back behind the copy, so the two directions do not wait for each other. Every byte is compared
//! once, before the timed rounds.
//!
//! Without two GPUs the example runs on two simulated devices, with modelled times.
#![deny(unsafe_code)]

mod clock;
mod copies;
#[allow(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "the example compares with raw calls"
)]
mod raw;
mod sums;

use std::process::{Command, ExitCode};

use clap::Parser;
use cuda_rt::driver::PeerAccess;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Live, OpenError};
use cuda_rt_examples::choice::DeviceChoice;
use cuda_rt_examples::cli::{Outcome, heading};

use copies::Rates;

/// Copies between two devices, and sums over two or four.
#[derive(Clone, Debug, Parser)]
#[command(name = "peers", version)]
struct Args {
    /// The devices to run on: two GPUs, or simulated devices.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Size of each buffer [default: 256 on GPUs, 2 on simulated devices].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=16 << 10))]
    mib: Option<u32>,
    /// Number of copies that are timed together.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    copies: u32,
    /// Print only the rates of the copies, as three numbers.
    #[arg(long, hide = true)]
    rates: bool,
}

impl Args {
    /// Size of each buffer.
    fn mib_on<D: Live>(&self, gpu: &Device<D>) -> usize {
        self.mib.unwrap_or(if gpu.is_simulated() { 2 } else { 256 }) as usize
    }
}

/// An environment variable: 0 turns off the links in a process.
const ACCESS_VARIABLE: &str = "CUDA_RT_PEER_ACCESS";

fn run(args: &Args) -> Outcome {
    let gpus = || {
        Device::with_gpu(0, |first| {
            Device::with_gpu(1, |second| compare(&first, &second, args))
        })
    };
    match (args.device, args.device == DeviceChoice::Sim) {
        (_, true) => simulated(args),
        (choice, _) => match gpus() {
            Ok(Ok(done)) => done,
            Err(OpenError::NoGpu(_)) | Ok(Err(OpenError::NoGpu(_))) if choice == DeviceChoice::Auto => {
                println!("there are fewer than two GPUs: two devices are simulated");
                simulated(args)
            }
            Ok(Err(error)) | Err(error) => Err(error.into()),
        },
    }
}

fn simulated(args: &Args) -> Outcome {
    Device::simulated(SimConfig::default(), |first| {
        first.simulated_peer(|second| compare(&first, &second, args))
    })??
}

fn compare<A: Live, B: Live>(first: &Device<A>, second: &Device<B>, args: &Args) -> Outcome {
    let access = first.peer_access(second)?;
    let rates = copies::measure(first, second, args)?;
    if args.rates {
        println!("{} {} {}", rates.pull, rates.push, rates.both);
        return Ok(());
    }
    println!("two of {}", heading(first));
    println!("each buffer has {} MiB", args.mib_on(first));
    let word = match access {
        PeerAccess::Direct => "a link between them",
        _ => "no link between them",
    };
    println!("{word}: every byte copied was compared");
    println!("{:<28}{:>10}{:>10}{:>14}", "GB/s", "pull", "push", "both ways");
    row("copies", &rates);
    if access == PeerAccess::Direct {
        row("copies without the link", &without_link(first, args)?);
    }
    if first.is_simulated() {
        println!("raw calls: none on simulated devices");
    } else {
        for (name, raw) in raw::measure(args.mib_on(first), args.copies)? {
            row(name, &raw);
            let ratio = Rates {
                pull: rates.pull / raw.pull,
                push: rates.push / raw.push,
                both: rates.both / raw.both,
            };
            println!(
                "{:<28}{:>10.3}{:>10.3}{:>14.3}",
                "  ours are of them", ratio.pull, ratio.push, ratio.both
            );
        }
    }
    sums::report(first, second, args)
}

fn row(name: &str, Rates { pull, push, both }: &Rates) {
    println!("{name:<28}{pull:>10.1}{push:>10.1}{both:>14.1}");
}

/// Measures without links: on simulated devices that have no link, or in a process that uses no
/// link.
fn without_link<D: Live>(first: &Device<D>, args: &Args) -> Outcome<Rates> {
    if first.is_simulated() {
        let config = SimConfig::default().peer_access(false);
        return Device::simulated(config, |first| {
            first.simulated_peer(|second| copies::measure(&first, &second, args))
        })??;
    }
    let (mib, copies) = (args.mib_on(first).to_string(), args.copies.to_string());
    let child = Command::new(std::env::current_exe()?)
        .args(["--rates", "--device", "cuda", "--mib", &mib, "--copies", &copies])
        .env(ACCESS_VARIABLE, "0")
        .output()?;
    let text = String::from_utf8(child.stdout)?;
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [pull, push, both] = numbers[..] else {
        let errors = String::from_utf8_lossy(&child.stderr);
        return Err(format!("the process without links printed {text:?}: {errors}").into());
    };
    Ok(Rates { pull, push, both })
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::from(2)
        }
    }
}
