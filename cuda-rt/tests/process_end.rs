//! Processes that end while threads still call CUDA: each exits as it was told to, with no signal.
//!
//! Each case is a process of its own, which is this binary with the case's name in a variable. The
//! gate of the calls has tests without a GPU, in `driver-cuda/src/process_end.rs`.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_rt::{Device, DeviceBuffer, Result};

cuda_rt::streams! {
    Compute;
    Other;
}

const CASE: &str = "CUDA_RT_TEST_PROCESS_END_CASE";
/// How often each case runs.
const RUNS: usize = 25;
const LEN: usize = 1 << 18;
/// The status with which `main` would not end.
const STATUS: i32 = 7;

fn ends_well(test: &str, case: impl FnOnce(Device) -> Result<()>) {
    if std::env::var_os(CASE).is_some() {
        case(Device::open_or_simulate().unwrap()).unwrap();
        std::process::exit(STATUS);
    }
    if Device::open().is_err() {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "CUDA_RT_REQUIRE_GPU is set, and there is no GPU"
        );
        eprintln!("SKIPPED ON CUDA: there is no GPU");
    }
    for run in 0..RUNS {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(CASE, test)
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(STATUS), "run {run}: {ended:?}");
    }
}

#[test]
fn threads_of_the_program_go_on_as_it_ends() {
    ends_well("threads_of_the_program_go_on_as_it_ends", |gpu| {
        for _ in 0..8 {
            let gpu = gpu.clone();
            thread::spawn(move || -> Result<()> {
                let other = gpu.stream::<Other>()?;
                loop {
                    let mut buffer = other.alloc_zeroed::<f32>(LEN)?;
                    other.fill(&mut buffer, 1.0)?;
                    other.release(buffer)?.synchronize()?;
                }
            });
        }
        thread::sleep(Duration::from_millis(20));
        Ok(())
    });
}

#[test]
fn closures_are_pending_as_the_program_ends() {
    ends_well("closures_are_pending_as_the_program_ends", |gpu| {
        let compute = gpu.stream::<Compute>()?;
        for _ in 0..2000 {
            let mut buffer = compute.alloc_zeroed::<f32>(LEN)?;
            compute.fill(&mut buffer, 1.0)?;
            compute.release(buffer)?.on_done(drop)?;
        }
        Ok(())
    });
}

#[test]
fn a_thread_local_holds_buffers_as_the_program_ends() {
    thread_local! {
        static KEPT: RefCell<Vec<DeviceBuffer<f32, Compute>>> = const { RefCell::new(Vec::new()) };
    }
    ends_well("a_thread_local_holds_buffers_as_the_program_ends", |gpu| {
        let compute = gpu.stream::<Compute>()?;
        for _ in 0..100 {
            let buffer = compute.alloc_zeroed::<f32>(LEN)?;
            KEPT.with_borrow_mut(|kept| kept.push(buffer));
        }
        Ok(())
    });
}

/// CUDA calls a function of ours then. The end waits for it.
#[test]
fn a_host_function_runs_as_the_program_ends() {
    ends_well("a_host_function_runs_as_the_program_ends", |gpu| {
        let (begun, wait) = mpsc::channel();
        let compute = gpu.stream::<Compute>()?;
        compute.host_fn((), move |()| {
            // The receiver lives until this is received.
            let _ = begun.send(());
            thread::sleep(Duration::from_millis(100));
        })?;
        // A simulated device runs work when it is asked.
        while wait.try_recv().is_err() {
            compute.is_done()?;
            thread::yield_now();
        }
        Ok(())
    });
}

#[test]
fn host_functions_are_pending_as_the_program_ends() {
    ends_well("host_functions_are_pending_as_the_program_ends", |gpu| {
        let (compute, other) = (gpu.stream::<Compute>()?, gpu.stream::<Other>()?);
        for stream in 0..2000 {
            let work = |()| thread::sleep(Duration::from_micros(100));
            if stream % 2 == 0 {
                compute.host_fn((), work)?;
            } else {
                other.host_fn((), work)?;
            }
        }
        Ok(())
    });
}

/// The function would have to return into CUDA.
#[test]
fn a_host_function_ends_the_program() {
    ends_well("a_host_function_ends_the_program", |gpu| {
        let compute = gpu.stream::<Compute>()?;
        compute.host_fn((), |()| std::process::exit(STATUS))?;
        loop {
            compute.is_done()?;
            thread::yield_now();
        }
    });
}
