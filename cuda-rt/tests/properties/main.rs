//! Random programs in the safe API: no order of them races, what they compute is what a sequential
//! model computes, and each edge that they record is there for a reason.
//!
//! | file | what |
//! |---|---|
//! | `plan` | a small language of programs, which proptest generates and shrinks |
//! | `object`, `side/`, `run` | a plan in the typed API: where a bundle lives is known at run time only, and held typed |
//! | `work` | what streams compute, and the same on plain vectors |
//! | `programs` | property 1: every order gives the model's bytes, and no race |
//! | `log`, `record` | the driver calls of a plan as data, and the driver that writes them down |
//! | `order` | which of them race, by brute force |
//! | `bytes` | what the host sees if two of them run the other way round, on plain memory |
//! | `replay`, `rig` | the calls made again, with one left out, on simulated devices |
//! | `mutants` | property 2: what each edge that is left out does, and what the checker says of it |
//! | `regressions` | plans that once found something |
//!
//! A quick run is part of `cargo test`. `CUDA_RT_LONG=1` makes it long, and `CUDA_RT_CASES` sets
//! how many plans each property tries. Plans leak, on purpose: constants, and what is forgotten,
//! keep their devices. Some 30,000 devices with their memory are what Linux lets one process map
//! (`vm.max_map_count`), so for more plans than 10,000 start another process; each tries others.

mod bytes;
mod log;
mod mutants;
mod object;
mod order;
mod plan;
mod programs;
mod record;
mod regressions;
mod replay;
mod rig;
mod run;
mod side;
mod work;

use proptest::test_runner::{Config, FileFailurePersistence};

/// How proptest runs a property: `quick` plans, `long` where `CUDA_RT_LONG` is set, or as many as
/// `CUDA_RT_CASES` says. Plans that failed once are tried first.
fn config(quick: u32, long: u32) -> Config {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty() && value != "0");
    let asked = set("CUDA_RT_CASES").map(|value| {
        value
            .to_str()
            .and_then(|value| value.parse().ok())
            .expect("a number of plans")
    });
    let cases = asked.unwrap_or(if set("CUDA_RT_LONG").is_some() {
        long
    } else {
        quick
    });
    Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        source_file: Some(file!()),
        max_shrink_time: 60_000,
        ..Config::default()
    }
}
