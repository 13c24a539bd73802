//! A kernel that runs for ever on a GPU, as it must by Rust's rules: the driver's compiler of PTX
//! may not remove its loop. Another process launches the kernel, and is killed.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cuda_rt::{Device, Grid1, Result};
use library_kernels::endless::endless;

cuda_rt::streams! {
    Compute;
}

const INDEX: &str = "CUDA_RT_TEST_ENDLESS_INDEX";
const LEN: usize = 16;
/// A kernel that ends needs some microseconds.
const WATCHED: Duration = Duration::from_millis(300);
const ENDED: &str = "the kernel ended";
const RUNS: &str = "the kernel runs";

/// Launches the kernel, watches it, and prints what was seen.
fn launch(index: u32) -> Result<()> {
    let gpu = Device::open()?;
    let stream = gpu.stream::<Compute>()?;
    let mut output = stream.alloc_zeroed::<u32>(LEN)?;
    // The kernel is compiled before the watch begins, and this launch ends.
    endless(&stream, Grid1::covering(1), &mut output, 0, 1)?;
    stream.synchronize()?;
    endless(&stream, Grid1::covering(1), &mut output, 0, index)?;
    let handoff = stream.release(output)?;
    let start = Instant::now();
    let mut is_done = handoff.is_done()?;
    while !is_done && start.elapsed() < WATCHED {
        thread::sleep(Duration::from_millis(1));
        is_done = handoff.is_done()?;
    }
    println!("\n{}", if is_done { ENDED } else { RUNS });
    // The end of the process would wait for the kernel.
    loop {
        thread::park();
    }
}

/// What another process prints about the kernel with this index.
fn seen(index: usize) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_kernel_that_may_not_end_does_not_end", "--exact", "--nocapture"])
        .env(INDEX, index.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(std::result::Result::ok);
    let found = lines.find(|line| [ENDED, RUNS].contains(&line.as_str()));
    child.kill().unwrap();
    child.wait().unwrap();
    found.unwrap_or_default()
}

#[test]
fn a_kernel_that_may_not_end_does_not_end() {
    if let Ok(index) = std::env::var(INDEX) {
        launch(index.parse().unwrap()).unwrap();
    }
    if Device::open().is_err() {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "CUDA_RT_REQUIRE_GPU is set, and there is no GPU"
        );
        eprintln!("SKIPPED ON CUDA: there is no GPU");
        return;
    }
    // The loop passes 0, 1, 6.
    assert_eq!(seen(6), ENDED, "an index inside the output");
    assert_eq!(seen(LEN), RUNS, "an index behind the output");
}
