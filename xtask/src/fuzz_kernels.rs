//! `cargo xtask fuzz-kernels`: builds random kernels for the host and for the GPU, launches them on
//! both, and compares their bytes with a reference.
//!
//! One seed always gives the same kernels. Signatures ([`signatures`]) show that each argument
//! arrives. Programs ([`program`]) show that phases, shuffles, votes, shared memory, atomics and
//! arithmetic mean the same on the simulated device, in the PTX ([`crate::interpreter`]), on a
//! GPU, and in the reference ([`mod@reference`]). Signatures of [`refused`] must not build. The
//! result is one binary with the PTX and all data, which can run on another machine with a GPU.

mod case;
mod emit;
mod expressions;
mod generate;
mod program;
mod project;
mod random;
mod reference;
mod refused;
mod signatures;
mod values;

use std::error::Error;
use std::path::PathBuf;

use crate::interpreter::Interpreter;
use case::Case;
use project::Project;
use refused::How;

/// The task's options: which kernels to make, and where.
pub(crate) struct Options {
    seed: u64,
    signatures: usize,
    kernels: usize,
    refused: usize,
    keep: Option<PathBuf>,
    /// Stop once the PTX is built and proved.
    only_ptx: bool,
}

impl Options {
    /// Parses `--seed S --signatures N --kernels N --refused N --keep DIR --until ptx`. Each option
    /// may be left out.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            seed: 1,
            signatures: 24,
            kernels: 24,
            refused: 24,
            keep: None,
            only_ptx: false,
        };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("`{}` lacks a value", pair[0]).into());
            };
            match *name {
                "--seed" => options.seed = value.parse()?,
                "--signatures" => options.signatures = value.parse()?,
                "--kernels" => options.kernels = value.parse()?,
                "--refused" => options.refused = value.parse()?,
                "--until" if *value == "ptx" => options.only_ptx = true,
                "--keep" => options.keep = Some(PathBuf::from(value)),
                _ => return Err(format!("`fuzz-kernels` has no option `{name}`").into()),
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let seed = options.seed;
    let signatures = (0..options.signatures).map(|number| signatures::signature(seed, number));
    let programs = (0..options.kernels)
        .map(|number| Case::of_program(&generate::program(seed, number), format!("kernel_{number}")));
    let cases: Vec<Case> = signatures.chain(programs).collect();

    let project = Project::new(options.keep.clone())?;
    for how in [How::Size, How::Type] {
        let kernels: Vec<_> = (0..options.refused)
            .map(|number| refused::refused(seed, number, how))
            .collect();
        project.must_not_build(&kernels)?;
        println!(
            "{} signatures are refused by both compilers ({how:?})",
            kernels.len()
        );
    }
    if cases.is_empty() {
        return Ok(());
    }
    project.write(seed, &cases)?;
    let ptx = project.build_ptx(cases.len())?;
    interpret(seed, &ptx, &cases)?;
    if options.only_ptx {
        println!("SKIPPED: the host's build of the kernels, and their runs");
        return Ok(());
    }
    let binary = project.build_host()?;
    let bytes = std::fs::metadata(&binary)?.len();
    println!(
        "{}: {bytes} bytes; on a GPU run it with CUDA_RT_REQUIRE_GPU=1",
        binary.display()
    );
    project.run(&binary)
}

/// Runs the PTX of each kernel, and compares its bytes with the reference.
fn interpret(seed: u64, ptx: &str, cases: &[Case]) -> Result<(), Box<dyn Error>> {
    let interpreter = Interpreter::new(ptx)?;
    let mut failed = 0;
    for case in cases {
        if let Err(error) = case.interpret(&interpreter) {
            println!("FAILED: the PTX of {} of seed {seed}: {error}", case.name);
            failed += 1;
        }
    }
    let count = cases.len();
    println!(
        "interpreted PTX: {} of {count} kernels of seed {seed} give the expected bytes",
        count - failed
    );
    if failed == 0 {
        Ok(())
    } else {
        Err("the PTX of kernels differs from the reference".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(seed: u64) -> String {
        let sources = (0..200).map(|number| emit::kernel(&generate::program(seed, number), "kernel"));
        sources.collect()
    }

    #[test]
    fn one_seed_gives_one_set_of_kernels() {
        assert!(programs(3) == programs(3));
        assert!(programs(3) != programs(4));
    }

    /// A construct that no program has is not tested.
    #[test]
    fn programs_use_every_construct_of_the_grammar() {
        let text = programs(1);
        for name in [
            "Index1",
            "Index2",
            "Index3",
            "Block,",
            "Block2,",
            "PerThread<",
            "PerThreadChunk<",
            "PerThreadColumn<",
            "PerBlock<",
            "Atomic<",
            "BlockUninit<",
            ".map(",
            ".map_shared(",
            ".update(",
            ".threads_with(",
            ".threads(",
            ".write(",
            ".each_mut()",
            ".split_at_mut(",
            ".atomic()",
            ".broadcast(",
            ".shuffle_down(",
            ".shuffle_up(",
            ".shuffle_xor(",
            ".shuffle_from(",
            ".shuffle(",
            ".warp_any(",
            ".warp_all(",
            ".ballot(",
            ".warp_match(",
            ".warp_reduce::<",
            ".warp_inclusive_scan::<",
            ".warp_exclusive_scan::<",
            ".reduce::<",
            ".inclusive_scan::<",
            ".exclusive_scan::<",
            ".any(",
            ".all(",
            ".count(",
            "fetch_add",
            "fetch_min",
            "fetch_max",
            "fetch_and",
            "fetch_or",
            "fetch_xor",
            "<Sum,",
            "<Min,",
            "<Max,",
            "<And,",
            "<Or,",
            "<Xor,",
            "accurate::rem(",
            "accurate::rem_euclid(",
            "Float::mul_add(",
            "Float::sqrt(",
            "as i8)",
            "as u16)",
        ] {
            assert!(text.contains(name), "no kernel has `{name}`");
        }
    }

    /// If a kernel leaves its outputs unchanged, a comparison of bytes shows nothing.
    #[test]
    fn kernels_change_their_outputs() {
        let changes = |number: &usize| {
            let program = generate::program(1, *number);
            let results = reference::run(&program);
            program
                .outputs
                .iter()
                .zip(results)
                .any(|(output, result)| output.initial != result)
        };
        let changing = (0..200).filter(changes).count();
        assert!(changing > 190, "{changing} of 200");
    }
}
