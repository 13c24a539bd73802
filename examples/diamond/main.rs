//! A diamond of work on three streams. `cuda_rt_examples::diamond` explains how.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use cuda_rt_examples::diamond;

fn main() -> ExitCode {
    match diamond::run(&diamond::Args::parse()) {
        Ok(report) => {
            // The work is done, so a reader that has gone (`| head`) is no failure.
            let _ = io::stdout().write_all(report.to_string().as_bytes());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("diamond: {failure}");
            ExitCode::from(2)
        }
    }
}
