//! Denoises a video end to end. `cuda_rt_examples::denoise::pipeline` explains how.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use cuda_rt_examples::denoise;
use cuda_rt_examples::denoise::failure::Failure;
use cuda_rt_examples::interrupt;

fn main() -> ExitCode {
    let args = denoise::args::Args::parse();
    let run = || {
        interrupt::handle().map_err(Failure::Terminal)?;
        denoise::run(&args)
    };
    let report = match run() {
        Ok(report) => report,
        Err(failure) => {
            eprintln!("denoise: {failure}");
            return ExitCode::from(2);
        }
    };
    let text = match (args.quiet, args.json) {
        (true, _) => return ExitCode::SUCCESS,
        (_, true) => report.to_json() + "\n",
        (_, false) => report.to_string(),
    };
    // The work is done, so a reader that has gone (`| head`) is no failure.
    let _ = if args.writes_stdout() {
        io::stderr().write_all(text.as_bytes())
    } else {
        io::stdout().write_all(text.as_bytes())
    };
    ExitCode::SUCCESS
}
