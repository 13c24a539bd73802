//! A panic inside a simulated device loses the device, and has no other effect: no call unwinds, no
//! block gets a second owner, and no thread waits for itself.
#![forbid(unsafe_code)]

use std::panic::{self, AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DriverResult, ErrorCode, Memory, MemoryInfo, Tools};
use cuda_rt::simulator::{Call, Order, SimConfig, SimDriver};
use cuda_rt::{Device, DeviceBuffer, Grid1, Scoped};
use device_std::prelude::*;

cuda_rt::streams! {
    Compute;
    Other;
}

// The simulated device reads no PTX.
device_std::kernel_module!("conformance/kernels.ptx");

/// The panic hook, and the driver that kernels call, belong to the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn lazy(seed: u64) -> SimConfig {
    SimConfig::new()
        .seed(seed)
        .order(Order::Lazy)
        .check(Check::Record)
}

/// Runs `test` on a thread that must end.
#[track_caller]
fn ends(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        test();
        done.send(())
    });
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("deadlock: no end after a minute"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// Whether the block of `mine` belongs to another buffer too. If so, returns what its owner finds
/// in a buffer that was zeroed.
fn two_owners<'id>(
    gpu: &Device<Scoped<'id>>,
    mut mine: DeviceBuffer<u32, Compute<Scoped<'id>>>,
    theirs: &[DeviceBuffer<u32, Other<Scoped<'id>>>],
) -> Option<u32> {
    let (compute, other) = (
        gpu.stream::<Compute<_>>().unwrap(),
        gpu.stream::<Other<_>>().unwrap(),
    );
    let their = theirs.iter().find(|their| their.address() == mine.address())?;
    other.synchronize().unwrap();
    compute.fill(&mut mine, 7).unwrap();
    compute.synchronize().unwrap();
    let mut back = [0; 1024];
    other.copy_to_slice(their, &mut back).unwrap();
    Some(back[0])
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the drop of a payload");
    }
}

#[kernel]
fn throw_a_bomb(i: Index1, mut out: PerThread<u32>) {
    if out.get_mut(i).is_some() {
        panic_any(Bomb);
    }
}

/// Regression: the payload was dropped outside the device's own `catch_unwind`. The device counted
/// one operation less than it had run, and gave the block of a pending free to two streams.
#[test]
fn a_kernel_that_panics_with_a_payload_whose_drop_panics_loses_the_device() {
    ends(|| {
        for seed in 0..8 {
            Device::simulated(lazy(seed), |gpu| {
                let compute = gpu.stream::<Compute<_>>().unwrap();
                let mut out = compute.alloc_zeroed::<u32>(64).unwrap();
                let freed = compute.alloc_zeroed::<u32>(1024).unwrap();
                compute.synchronize().unwrap();
                throw_a_bomb(&compute, Grid1::covering(1), &mut out).unwrap();
                drop(freed);
                let synchronized = catch_unwind(AssertUnwindSafe(|| compute.synchronize()));
                let error = synchronized.expect("a call unwound").unwrap_err();
                assert_eq!(error.driver().unwrap().code(), ErrorCode::LAUNCH_FAILED);
                let message = error.to_string();
                assert!(message.contains("throw_a_bomb"), "{message}");
                assert!(message.contains("a panic without a message"), "{message}");
                assert!(compute.synchronize().unwrap_err().is_sticky());
                assert!(compute.alloc_zeroed::<u32>(1024).unwrap_err().is_sticky());
            })
            .unwrap();
        }
    });
}

/// Regression: when the host's modelled clock overflowed, a free had ended its block but enqueued
/// nothing.
#[test]
fn a_clock_at_its_end_stays_there_and_frees_go_on() {
    ends(|| {
        for seed in 0..8 {
            Device::simulated(lazy(seed), |gpu| {
                // Each free is a call.
                gpu.set_memory_caching(false);
                let compute = gpu.stream::<Compute<_>>().unwrap();
                let other = gpu.stream::<Other<_>>().unwrap();
                let x = compute.alloc_zeroed::<u32>(1024).unwrap();
                let y = compute.alloc_zeroed::<u32>(1024).unwrap();
                compute.synchronize().unwrap();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let simulator = gpu.simulator().unwrap();
                        simulator.spend_host_ns(u64::MAX - simulator.host_now_ns());
                        drop(x);
                        simulator.spend_host_ns(1);
                        assert_eq!(simulator.host_now_ns(), u64::MAX);
                    });
                });
                drop(y);
                compute.synchronize().unwrap();
                assert_eq!(gpu.simulator().unwrap().counters().allocations_live, 0);
                let mine = compute.alloc_zeroed::<u32>(1024).unwrap();
                let theirs: Vec<_> = (0..2).map(|_| other.alloc_zeroed(1024).unwrap()).collect();
                assert_eq!(two_owners(&gpu, mine, &theirs), None, "seed {seed}");
                assert!(gpu.races().is_empty());
            })
            .unwrap();
        }
    });
}

static DRIVER: Mutex<Option<Arc<SimDriver>>> = Mutex::new(None);
static ANSWERS: Mutex<Vec<DriverResult<MemoryInfo>>> = Mutex::new(Vec::new());

/// The driver that kernels and the panic hook call.
fn driver() -> Arc<SimDriver> {
    DRIVER.lock().unwrap().clone().expect("a test has set it")
}

fn new_driver() -> Arc<SimDriver> {
    let driver = SimDriver::new(lazy(1));
    *DRIVER.lock().unwrap() = Some(Arc::clone(&driver));
    driver
}

/// Calls the driver from inside. If the call waited for the lock, it would wait for its own thread.
fn ask() {
    let driver = driver();
    ANSWERS.lock().unwrap().push(driver.memory_info());
    assert!(driver.races().is_empty());
}

#[kernel]
fn call_the_driver(i: Index1, mut out: PerThread<u32>) {
    if let Some(out) = out.get_mut(i) {
        ask();
        *out = 7;
    }
}

#[kernel]
fn look_at_the_device(i: Index1, mut out: PerThread<u32>) {
    if let Some(out) = out.get_mut(i) {
        *out = driver().simulator().unwrap().counters().streams_live as u32;
    }
}

#[kernel]
fn fail(i: Index1, mut out: PerThread<u32>) {
    if out.get_mut(i).is_some() {
        panic!("of the test");
    }
}

/// The driver's answers to kernels and hooks so far.
fn answers() -> Vec<ErrorCode> {
    let answers = std::mem::take(&mut *ANSWERS.lock().unwrap());
    answers
        .into_iter()
        .map(|answer| answer.unwrap_err().code())
        .collect()
}

#[test]
fn a_kernel_or_a_panic_hook_that_calls_its_driver_gets_an_error() {
    /// Number of times that the hook called the driver.
    static HOOKED: AtomicU32 = AtomicU32::new(0);
    ends(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            before(info);
            if HOOKED.load(Ordering::SeqCst) > 0 {
                HOOKED.fetch_sub(1, Ordering::SeqCst);
                ask();
                // This finds nothing, but must not panic: the process would end.
                let counters = driver().simulator().unwrap().counters();
                assert_eq!(counters.streams_live, 0);
            }
        }));
        Device::with_driver(new_driver(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut out = compute.alloc_zeroed::<u32>(1).unwrap();
            call_the_driver(&compute, Grid1::covering(1), &mut out).unwrap();
            let mut back = [0];
            compute.copy_to_slice(&out, &mut back).unwrap();
            assert_eq!((back, answers()), ([7], vec![ErrorCode::NOT_PERMITTED]));

            fail(&compute, Grid1::covering(1), &mut out).unwrap();
            HOOKED.store(1, Ordering::SeqCst);
            let error = compute.synchronize().unwrap_err();
            assert_eq!(HOOKED.load(Ordering::SeqCst), 0, "the hook ran");
            assert!(
                error.is_sticky() && error.to_string().contains("of the test"),
                "{error}"
            );
            assert_eq!(answers(), [ErrorCode::NOT_PERMITTED]);
        })
        .unwrap();
    });
}

#[test]
fn a_kernel_that_looks_at_its_device_is_lost() {
    ends(|| {
        let lost = Device::with_driver(new_driver(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut out = compute.alloc_zeroed::<u32>(1).unwrap();
            look_at_the_device(&compute, Grid1::covering(1), &mut out).unwrap();
            let error = compute.synchronize().unwrap_err();
            assert!(
                error.to_string().contains("from inside a simulated kernel"),
                "{error}"
            );
        });
        lost.unwrap();
    });
}

/// The faults of a simulated device are counted outside its lock: the number 0 panics there.
#[test]
fn a_fault_without_a_number_panics_and_leaves_the_device_as_it_was() {
    ends(|| {
        Device::simulated(lazy(0), |gpu| {
            let simulator = gpu.simulator().unwrap();
            let asked = catch_unwind(AssertUnwindSafe(|| {
                simulator.fail_nth(Call::Alloc, 0, ErrorCode::OUT_OF_MEMORY);
            }));
            assert!(asked.is_err());
            let compute = gpu.stream::<Compute<_>>().unwrap();
            compute.alloc_zeroed::<u32>(1).unwrap();
            compute.synchronize().unwrap();
        })
        .unwrap();
    });
}
