//! Waits for tasks while all processors are busy. The test has its own process, because it keeps
//! the processors busy.
#![forbid(unsafe_code)]

mod block_on;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Handoff};

use block_on::block_on;

cuda_rt::streams! { Compute; }

const FILLS: u32 = 2000;

/// Busy threads for each processor: a thread that yields waits for all of them.
const BUSY: usize = 4;

/// Measures how long `wait` takes for the fills of a lazy device on which nothing has run.
fn timed(name: &str, wait: impl FnOnce(Handoff<DeviceBuffer<u32>>)) -> Duration {
    let config = SimConfig::new().order(Order::Lazy).most_pending(usize::MAX);
    let gpu = Device::open_or_simulate_with(config).unwrap();
    let compute = gpu.stream::<Compute>().unwrap();
    let mut data = compute.alloc_zeroed::<u32>(1024).unwrap();
    for value in 0..FILLS {
        compute.fill(&mut data, value).unwrap();
    }
    let start = Instant::now();
    wait(compute.release(data).unwrap());
    let took = start.elapsed();
    println!("{name}: {took:?}");
    took
}

/// The thread that queries the device runs one operation at each query. A thread that yielded after
/// each query waited each time for all busy threads.
#[test]
fn a_wait_beside_busy_threads_takes_no_time_for_each_operation() {
    let stop = AtomicBool::new(false);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..BUSY * processors {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let waits = [
            timed("synchronize", |handoff| drop(handoff.synchronize().unwrap())),
            timed("await", |handoff| drop(block_on(handoff).unwrap())),
            timed("on_done", |handoff| {
                let (sender, ran) = mpsc::channel();
                let told = handoff.on_done(move |data| sender.send(data.is_ok()).unwrap());
                told.unwrap();
                assert!(ran.recv().unwrap());
            }),
        ];
        // Stop the busy threads before an assertion can fail, or they never end.
        stop.store(true, Ordering::Relaxed);
        for took in waits {
            assert!(took < Duration::from_secs(5), "{took:?} for {FILLS} fills");
        }
    });
}
