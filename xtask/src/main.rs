//! Tasks of a maintainer: `cargo xtask <task>`.
#![forbid(unsafe_code)]

mod coexist;
mod fuzz_kernels;
mod hazards;
mod house;
mod invariants;
mod mutants;
mod platforms;
mod ptx;
mod ptxas;
mod sanitize;
mod surface;
mod unsafe_budget;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask <task>

  mutants [NAME...]   break one guard of the core at a time in a copy, and see that a test notices; all of them, or those
                           named; half an hour for all; into docs/mutants.md
  mutants --check     see that the descriptions of the breaks fit the sources; builds nothing
  fuzz-kernels [--seed S] [--signatures N] [--kernels N] [--refused N] [--keep DIR]
                           random kernels: build them for both sides, run them on the simulated device and on GPUs, and
                           compare with what they must compute; leaves a binary to run on a machine with a GPU
  coexist [NAME...]        see that cuda-rt shares a program with candle, cubecl, and cudarc of other features; needs a network
  hazards                  what the tree has on each hazard, into docs/hazards.md; fail where a case, a twin or a program
                           is missing
  hazards --check          the same, but compare
  hazards check FILE [--json]
                           run the hazard programs of FILE, one JSON object a line, through the checker; print the
                           verdict of each, and fail where one differs from the file's
  house --check            see that files are short, that lines are wrapped, and that documents lead somewhere
  platforms                see that cuda-rt compiles for Windows and for Linux on ARM
  invariants --check       see that each invariant, obligation and document that comments cite exists, once, and each test
                           that documents name
  ptx                      build the PTX of device-kernels and of those in device-std/tests
  ptx --check              build it again, compare, and assemble it where there is a ptxas
  sanitize [address|leak|thread] [TEST...]
                           run the tests of the simulated device, or those binaries and modules named (`lib`,
                           `typed::order`, ...), under the address, leak and thread sanitizers of nightly, or one of
                           them; half an hour for each
  surface                  list what other crates can name, call or implement, into docs/surface; needs nightly
  surface --check          list it again, and compare
  unsafe-budget            count `unsafe` in each file, into unsafe-budget.txt
  unsafe-budget --check    count again, and compare
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["mutants", "--check"] => mutants::check(),
        ["mutants", names @ ..] => mutants::run(names),
        ["fuzz-kernels", options @ ..] => {
            fuzz_kernels::Options::parse(options).and_then(|options| fuzz_kernels::run(&options))
        }
        ["coexist", names @ ..] => coexist::run(names),
        ["hazards"] => hazards::write(),
        ["hazards", "--check"] => hazards::check(),
        ["hazards", "check", arguments @ ..] => hazards::check_programs(arguments),
        ["house", "--check"] => house::check(),
        ["platforms"] => platforms::run(),
        ["invariants", "--check"] => invariants::check(),
        ["ptx"] => ptx::write(),
        ["ptx", "--check"] => ptx::check(),
        ["sanitize", rest @ ..] => match rest.first().and_then(|first| sanitize::Sanitizer::named(first)) {
            Some(one) => sanitize::run(&[one], &rest[1..]),
            None => sanitize::run(&sanitize::Sanitizer::ALL, rest),
        },
        ["surface"] => surface::write(),
        ["surface", "--check"] => surface::check(),
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
