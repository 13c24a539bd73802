//! The maintainers' tasks: `cargo xtask <task>`.
#![forbid(unsafe_code)]

mod bench;
mod book;
mod coexist;
mod fuzz_kernels;
mod hazards;
mod instructions;
mod interpreter;
mod invariants;
mod kernel_report;
mod mutants;
mod new;
mod pictures;
mod platforms;
mod ptx;
mod ptxas;
mod sanitize;
mod surface;
mod tidy;
mod unsafe_budget;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask <task>

  bench [NAME...] [OPTION...]
                           measure whole programs and the cost of operations, by raw calls, cuda-rt, cudarc and PyTorch,
                           on the first GPU; `--help` lists the options, `--simulated` needs no GPU (docs/bench.md)
  book                     see that the programs of docs/book run, that it quotes files as they are, and that its links
                           lead somewhere; build its HTML if mdBook is installed
  mutants [NAME...]        break one guard at a time in a copy of the sources, and see that a test notices; all mutants
                           (half an hour) or the named ones; write docs/mutants.md
  mutants --check          see that the descriptions of the mutants fit the sources; builds nothing
  fuzz-kernels [--seed S] [--signatures N] [--kernels N] [--refused N] [--keep DIR] [--until ptx]
                           build random kernels for host and GPU, run them on the simulated device and on GPUs, and
                           compare their bytes with a reference; leaves a binary to run on a machine with a GPU
  coexist [NAME...]        see that a program can use cuda-rt with candle, cubecl, cuda-core, or other features of
                           cudarc; needs a network
  hazards                  list the programs and tests for each hazard in docs/hazards.md, and rustc's messages in
                           docs/messages.md; fail if a case, a twin or a program is missing, or a message names no mend
  hazards --check          the same, but compare with these pages
  hazards check FILE [--json]
                           run the hazard programs of FILE, one JSON object a line, through the checker; print each
                           verdict, and fail if one differs from the verdict in the file
  kernel-report            list registers, spills, occupancy, instructions and 16-byte accesses of the shipped kernels,
                           in docs/kernel-report.md; needs ptxas and nvdisasm
  kernel-report --check    list them again, and compare
  kernel-report FILE.ptx   print the same of the kernels of any PTX
  new PATH                 make a program with a kernel of its own in a new folder, from templates/program; its name is
                           the last part of PATH
  instructions             count the instructions of each operation over a driver library that does nothing, in
                           docs/instructions.md; needs valgrind and a C compiler
  instructions --check     count again, and compare
  tidy --check             see that files are short, lines are wrapped, and links and names of files in documents resolve
  pages --check            see that the page of each public item has an example that runs, and that numbers of hazards
                           are links on it; needs nightly
  pictures                 draw the README's pictures, with the example denoise on the simulated device
  pictures --check         draw them again, and compare
  platforms                see that cuda-rt compiles for Windows and for Linux on ARM
  invariants --check       see that each invariant, obligation and document that a comment cites exists once, and that
                           each test that a document names exists
  ptx                      build the PTX of device-kernels, of the kernels in device-std/tests and of the template
  ptx --check              build it again, compare, and assemble it if ptxas is installed
  sanitize [address|leak|thread] [TEST...]
                           run the tests of the simulated device under nightly's address, leak and thread sanitizers, or
                           under one of them; TEST names a binary or module (`lib`, `typed::order`, ...); half an hour
                           for each sanitizer
  surface                  list the items that other crates can name, call or implement, in docs/surface; needs nightly
  surface --check          list them again, and compare
  unsafe-budget            count `unsafe` in each file, in unsafe-budget.txt
  unsafe-budget --check    count again, and compare
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["bench", options @ ..] => bench::run(options),
        ["book"] => book::run(),
        ["mutants", "--check"] => mutants::check(),
        ["mutants", names @ ..] => mutants::run(names),
        ["fuzz-kernels", options @ ..] => {
            fuzz_kernels::Options::parse(options).and_then(|options| fuzz_kernels::run(&options))
        }
        ["coexist", names @ ..] => coexist::run(names),
        ["kernel-report"] => kernel_report::write(),
        ["kernel-report", "--check"] => kernel_report::check(),
        ["kernel-report", path] => kernel_report::print(path),
        ["hazards"] => hazards::write(),
        ["hazards", "--check"] => hazards::check(),
        ["hazards", "check", arguments @ ..] => hazards::check_programs(arguments),
        ["new", path] => new::run(path),
        ["instructions"] => instructions::write(),
        ["instructions", "--check"] => instructions::check(),
        ["tidy", "--check"] => tidy::check(),
        ["pages", "--check"] => surface::pages::check(),
        ["pictures"] => pictures::write(),
        ["pictures", "--check"] => pictures::check(),
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
