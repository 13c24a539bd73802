//! Tasks of a maintainer: `cargo xtask <task>`.
#![forbid(unsafe_code)]

mod broken_cores;
mod hazard_programs;
mod hazards;
mod invariants;
mod ptx;
mod ptxas;
mod unsafe_budget;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask <task>

  broken-cores [NAME...]   break one guard of the core at a time in a copy, and see that a test notices; all of them, or those
                           named; half an hour for all; into docs/broken-cores.md
  broken-cores --check     see that the descriptions of the breaks fit the sources; builds nothing
  hazards                  what the tree has on each hazard, into docs/hazards.md; fail where a case, a twin or a program
                           is missing
  hazards --check          the same, but compare
  hazards check FILE [--json]
                           run the hazard programs of FILE, one JSON object a line, through the checker; print the
                           verdict of each, and fail where one differs from the file's
  invariants --check       see that each invariant, obligation and document that comments cite exists, once
  ptx                      build the PTX of device-kernels and of those in device-std/tests
  ptx --check              build it again, compare, and assemble it where there is a ptxas
  unsafe-budget            count `unsafe` in each file, into unsafe-budget.txt
  unsafe-budget --check    count again, and compare
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["broken-cores", "--check"] => broken_cores::check(),
        ["broken-cores", names @ ..] => broken_cores::run(names),
        ["hazards"] => hazards::write(),
        ["hazards", "--check"] => hazards::check(),
        ["hazards", "check", file] => hazard_programs::check(file, false),
        ["hazards", "check", file, "--json"] | ["hazards", "check", "--json", file] => {
            hazard_programs::check(file, true)
        }
        ["invariants", "--check"] => invariants::check(),
        ["ptx"] => ptx::write(),
        ["ptx", "--check"] => ptx::check(),
        ["unsafe-budget"] => unsafe_budget::write(),
        ["unsafe-budget", "--check"] => unsafe_budget::check(),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
