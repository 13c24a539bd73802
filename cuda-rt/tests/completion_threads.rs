//! A device's completion threads end with it. The test has its own process, whose threads it
//! counts.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Bundle, Device, HandoffFuture, Result};

cuda_rt::streams! { Compute; }

/// The number of this process's threads that belong to the library.
fn ours() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("cuda-rt")).count()
}

#[track_caller]
fn becomes(threads: usize) {
    let start = Instant::now();
    while ours() != threads {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{} threads, not {threads}",
            ours()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn poll<R: Bundle>(future: &mut HandoffFuture<R>) -> Poll<Result<R>>
where
    R::Device: cuda_rt::Live,
{
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_completion_thread_starts_with_the_first_wait_and_ends_with_the_device() {
    let lazy = || SimConfig::default().order(Order::Lazy);
    for leak in [false, true] {
        Device::simulated(lazy(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let buffer = compute.alloc_zeroed::<u32>(8).unwrap();
            assert_eq!(ours(), 0);
            drop(compute.release(buffer).unwrap().into_future());
            // So much work that the first poll cannot finish it.
            let many: Vec<_> = (0..100)
                .map(|_| compute.release(compute.alloc_zeroed::<u32>(8).unwrap()).unwrap())
                .collect();
            let mut last = compute
                .release(compute.alloc_zeroed::<u32>(8).unwrap())
                .unwrap()
                .into_future();
            assert!(poll(&mut last).is_pending());
            becomes(1);
            while poll(&mut last).is_pending() {
                std::thread::yield_now();
            }
            // The idle thread stays for the next wait.
            assert_eq!(ours(), 1);
            if leak {
                let mut leaked = compute
                    .release(Vec::<cuda_rt::DeviceBuffer<u32, Compute<_>>>::new())
                    .unwrap()
                    .into_future();
                let _ = poll(&mut leaked);
                std::mem::forget(leaked);
            }
            drop(many);
        })
        .unwrap();
        becomes(0);
    }

    // The same for the thread that runs closures.
    let gpu = Device::open_or_simulate().unwrap();
    let compute = gpu.stream::<Compute>().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let handoff = compute.release(compute.alloc_zeroed::<u32>(8).unwrap()).unwrap();
    handoff
        .on_done(move |done| sender.send(done.is_ok()).unwrap())
        .unwrap();
    assert!(receiver.recv().unwrap());
    // The process-wide device stays, and both its threads stay too.
    assert_eq!(ours(), 2);
}
