//! Random programs in the safe API: no order of them races, they compute what a sequential model
//! computes, and each recorded edge is needed.
//!
//! - `plan`: a small language of programs, which proptest generates and shrinks
//! - `object`, `side/`, `run`: a plan in the typed API: the place of a bundle is known only at run
//!   time, and the bundle is held typed
//! - `work`: the work of streams, and the same work on plain vectors
//! - `counts`: how often each kind of work was done
//! - `programs`: property 1: every order gives the model's bytes, and no race
//! - `log`, `record`: the driver calls of a plan as data, and the driver that records them
//! - `order`: which of the calls race, by brute force
//! - `bytes`: what the host sees if two of them run in the reverse order, on plain memory
//! - `replay`, `rig`: the calls made again on simulated devices, with one left out
//! - `mutants`: property 2: the effect of each edge that is left out, and the checker's reports
//! - `redundant`: how many of the edges that order nothing new are left out
//! - `unwinds`, `faults`: property 3: one driver call unwinds, or is made and denied
//! - `regressions`: plans that once found a defect
//!
//! A quick run is part of `cargo test`. `CUDA_RT_LONG=1` makes it long, and `CUDA_RT_CASES` sets
//! the number of plans for each property. Plans leak memory on purpose: constants and forgotten
//! values keep their devices. Linux lets one process map the memory of some 30,000 devices
//! (`vm.max_map_count`). For more than 10,000 plans start another process; each process tries other
//! plans.

#[path = "../block_on/mod.rs"]
mod block_on;
mod bytes;
mod counts;
#[path = "../faults/driver.rs"]
#[allow(unsafe_code, reason = "`Driver` is an `unsafe` trait")]
#[allow(dead_code, reason = "`faults` uses the rest")]
mod driver;
mod faults;
mod log;
mod mutants;
mod object;
mod order;
mod plan;
mod programs;
mod record;
mod redundant;
mod regressions;
mod replay;
mod rig;
mod run;
mod side;
mod unwinds;
mod work;

use proptest::test_runner::{Config, FileFailurePersistence};

/// The settings of a property: `quick` plans, `long` plans if `CUDA_RT_LONG` is set, or the number
/// in `CUDA_RT_CASES`. Plans that failed once are tried first.
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
