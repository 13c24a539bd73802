//! Tasks of a maintainer: `cargo xtask TASK`.
#![forbid(unsafe_code)]

mod unsafe_budget;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  unsafe-budget [--check]   write unsafe-budget.txt, or compare it with the source
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["unsafe-budget"] => unsafe_budget::run(false),
        ["unsafe-budget", "--check"] => unsafe_budget::run(true),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
