//! Requests on a pool of streams. `cuda_rt_examples::serve` explains how.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use cuda_rt_examples::serve;

fn main() -> ExitCode {
    match serve::run(&serve::Args::parse()) {
        Ok(report) => {
            // The work is done, so a reader that has gone (`| head`) is no failure.
            let _ = io::stdout().write_all(report.to_string().as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("serve: {error}");
            ExitCode::from(2)
        }
    }
}
