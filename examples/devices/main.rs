//! Prints properties, memory and the pools' contents of every GPU, or of the simulated device.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Live, Result};
use cuda_rt_examples::choice::DeviceChoice;

/// Describes every GPU, or the simulated device.
#[derive(Debug, Parser)]
#[command(name = "devices", version)]
struct Args {
    /// The devices to describe.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
}

const MIB: u64 = 1 << 20;

fn describe<D: Live>(gpu: &Device<D>) -> Result<String> {
    let mut text = gpu.properties().to_string();
    let mut line = |what: &str, value: String| text += &format!("  {what:<18} {value}\n");
    let memory = gpu.memory_info()?;
    let (free, total) = (memory.free_bytes / MIB, memory.total_bytes / MIB);
    line("free memory", format!("{free} of {total} MiB"));
    let pool = gpu.memory_pool_stats()?;
    let (used, reserved) = (pool.used_bytes / MIB, pool.reserved_bytes / MIB);
    line("memory pool", format!("{used} of {reserved} MiB in use"));
    let held = gpu.pinned_stats().bytes_held as u64 / MIB;
    line("pinned pool", format!("{held} MiB page-locked"));
    Ok(text)
}

fn run(choice: DeviceChoice) -> Result<Vec<String>> {
    let simulated = || -> Result<_> { Device::simulated(SimConfig::default(), |gpu| describe(&gpu))? };
    let gpus = || -> Result<Vec<_>> { Device::for_each_gpu(|gpu| describe(&gpu))?.into_iter().collect() };
    match choice {
        DeviceChoice::Sim => Ok(vec![simulated()?]),
        // If there is no GPU, this error says why.
        DeviceChoice::Cuda => {
            Device::open()?;
            gpus()
        }
        DeviceChoice::Auto => match gpus()? {
            none if none.is_empty() => Ok(vec![simulated()?]),
            found => Ok(found),
        },
    }
}

fn main() -> ExitCode {
    match run(Args::parse().device) {
        Ok(devices) => {
            // A reader that has gone (`| head`) is no failure.
            let _ = io::stdout().write_all(devices.concat().as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("devices: {error}");
            ExitCode::from(2)
        }
    }
}
