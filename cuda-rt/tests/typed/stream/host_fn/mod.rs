//! Host functions: closures in the order of a stream's work, their memory, and their ends.
#![forbid(unsafe_code)]

mod attacks;
mod graphs;
mod samples;

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cuda_rt::checker::Check;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Live, PinnedBuffer, Result};

use crate::devices::{for_each_device, for_each_simulated_device};

cuda_rt::streams! {
    Compute;
    Upload;
    Download;
}

const LEN: usize = 256;
/// The name of the thread on which closures end.
const CLOSURES: &str = "cuda-rt-done";
/// The longest time that a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `body` on simulated devices of each order.
fn in_each_order(body: impl for<'id> Fn(&Device<cuda_rt::Scoped<'id>>)) {
    for order in [Order::Eager, Order::Lazy, Order::Random, Order::Starve] {
        for seed in 0..4 {
            let config = SimConfig::default().seed(seed).order(order);
            Device::simulated(config, |gpu| body(&gpu)).unwrap();
        }
    }
}

fn patient<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("in time")
}

/// Says on which thread it was dropped.
struct SaysWhere(Sender<String>);

impl Drop for SaysWhere {
    fn drop(&mut self) {
        let name = thread::current().name().unwrap_or("no name").to_owned();
        let _ = self.0.send(name);
    }
}

fn round_trip<D: Live>(gpu: &Device<D>) -> Result<()> {
    let compute = gpu.stream::<Compute<D>>()?;
    let mut data = compute.alloc_zeroed::<u32>(LEN)?;
    let mut host = compute.adopt(gpu.pinned::<u32>(LEN)?)?;
    for round in 1..6 {
        compute.fill(&mut data, round)?;
        compute.copy_to_host(&data, &mut host)?;
        compute.host_fn(&mut host, move |values| {
            assert!(values.iter().all(|value| *value == round), "{values:?}");
            values.iter_mut().zip(0..).for_each(|(value, i)| *value += i);
        })?;
        compute.copy_to_device(&host, &mut data)?;
        // Overwritten on the GPU before the copy, if the order were lost.
        compute.host_fn(&mut host, |values| values.fill(77))?;
    }
    let mut back = compute.adopt(gpu.pinned::<u32>(LEN)?)?;
    compute.copy_to_host(&data, &mut back)?;
    let back = compute.release(back)?.synchronize()?;
    assert!(
        back.iter().zip(5..).all(|(value, expected)| *value == expected),
        "{back:?}"
    );
    Ok(())
}

#[test]
fn the_host_works_between_two_pieces_of_the_gpus_work() {
    for_each_device(|gpu| round_trip(gpu).unwrap());
    in_each_order(|gpu| round_trip(gpu).unwrap());
}

#[test]
fn a_function_gets_each_kind_of_argument() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let input = compute.adopt(gpu.pinned_from(&[1_u8, 2, 3, 4]).unwrap()).unwrap();
        let mut output = compute.adopt(gpu.pinned::<u32>(4).unwrap()).unwrap();
        let mut empty = compute.adopt(gpu.pinned::<u64>(0).unwrap()).unwrap();
        let (sender, receiver) = mpsc::channel();
        compute
            .host_fn(
                (&input[1..], &mut output[..3], &mut empty, ()),
                move |(input, output, empty, ())| {
                    assert!(empty.is_empty());
                    output
                        .iter_mut()
                        .zip(input)
                        .for_each(|(to, from)| *to = u32::from(*from) * 10);
                    let _ = sender.send(input.len());
                },
            )
            .unwrap();
        let output = compute.release(output).unwrap().synchronize().unwrap();
        assert_eq!(*output, [20, 30, 40, 0]);
        assert_eq!(patient(&receiver), 3);
    });
}

#[test]
fn waits_of_every_kind_cover_a_function() {
    for_each_device(|gpu| {
        let (compute, upload) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Upload<_>>().unwrap(),
        );
        let log = Arc::new(Mutex::new(Vec::new()));
        let note = |text: &'static str| {
            let log = Arc::clone(&log);
            move |()| {
                thread::sleep(Duration::from_millis(2));
                log.lock().unwrap().push(text);
            }
        };
        compute.host_fn((), note("first")).unwrap();
        compute.synchronize().unwrap();
        assert_eq!(*log.lock().unwrap(), ["first"]);
        compute.host_fn((), note("second")).unwrap();
        let event = compute.record_event().unwrap();
        upload.wait_event(&event).unwrap();
        upload.host_fn((), note("third")).unwrap();
        let event = upload.record_event().unwrap();
        event.synchronize().unwrap();
        assert_eq!(*log.lock().unwrap(), ["first", "second", "third"]);
        compute.host_fn((), note("fourth")).unwrap();
        let event = compute.record_event().unwrap();
        while !event.query().unwrap() {
            thread::yield_now();
        }
        assert_eq!(log.lock().unwrap().last(), Some(&"fourth"));
    });
}

/// The owner of the memory is dropped while the function is pending. The block goes to a new owner
/// only after the function has run, so it never changes under the new owner.
#[test]
fn h16_a_block_is_reused_only_after_its_function_has_run() {
    in_each_order(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut idle: Vec<PinnedBuffer<u32, _>> = Vec::new();
        for round in 0..20 {
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            compute
                .host_fn(&mut host, move |values| values.fill(round + 1))
                .unwrap();
            drop(host);
            idle.push(gpu.pinned::<u32>(LEN).unwrap());
        }
        compute.synchronize().unwrap();
        assert!(idle.iter().all(|block| **block == [0; LEN]), "{idle:?}");
        gpu.trim_pinned(0);
    });
}

#[test]
fn captures_end_on_the_thread_for_closures_and_may_call_cuda_there() {
    struct CallsCuda(Device, Sender<Result<()>>);
    impl Drop for CallsCuda {
        fn drop(&mut self) {
            let called = self
                .0
                .stream::<Download>()
                .and_then(|stream| stream.synchronize());
            let _ = self.1.send(called);
        }
    }
    let gpu = Device::open_or_simulate_with(SimConfig::default().order(Order::Lazy)).unwrap();
    let compute = gpu.stream::<Compute>().unwrap();
    let buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
    let ((sender, dropped), (done, called)) = (mpsc::channel(), mpsc::channel());
    let (says, calls) = (SaysWhere(sender), CallsCuda(gpu.clone(), done));
    let mut runs = 0;
    compute
        .host_fn((), move |()| {
            let _captured = (&says, &calls, &buffer);
            runs += 1;
            assert_eq!(runs, 1);
            assert_ne!(thread::current().name(), Some(CLOSURES));
        })
        .unwrap();
    compute.synchronize().unwrap();
    assert_eq!(patient(&dropped), CLOSURES);
    patient(&called).unwrap();
}

/// A call that fails runs nothing, and ends the closure.
#[test]
fn a_call_that_fails_drops_the_closure_and_runs_nothing() {
    in_each_order(|gpu| {
        let simulator = gpu.simulator().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (sender, dropped) = mpsc::channel();
        let says = SaysWhere(sender);
        simulator.fail_next(Call::LaunchHostFunction, ErrorCode::OUT_OF_MEMORY);
        let failed = compute.host_fn((), move |()| {
            let _captured = &says;
            panic!("a function that was refused runs");
        });
        assert_eq!(failed.unwrap_err().driver().unwrap().call(), "cuLaunchHostFunc");
        assert_eq!(patient(&dropped), CLOSURES);
        compute.synchronize().unwrap();
    });
}

/// The simulated device holds no lock while a function runs: the function may wait for a thread
/// that calls the driver. On a GPU it may not: CUDA may let that thread wait for the function.
#[test]
fn a_function_may_wait_for_a_thread_that_calls_the_simulated_driver() {
    for_each_simulated_device(|gpu| {
        let (compute, upload) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Upload<_>>().unwrap(),
        );
        let lock = Arc::new(Mutex::new(0_u32));
        let ((go, started), in_function) = (mpsc::channel(), Arc::clone(&lock));
        let held = lock.lock().unwrap();
        compute
            .host_fn((), move |()| {
                let _ = go.send(());
                *in_function.lock().unwrap() += 1;
            })
            .unwrap();
        // All of this under the lock that the function waits for.
        let event = compute.record_event().unwrap();
        let mut data = upload.alloc_zeroed::<u32>(LEN).unwrap();
        while started.try_recv().is_err() {
            upload.fill(&mut data, 1).unwrap();
            assert!(!event.query().unwrap());
        }
        upload.fill(&mut data, 2).unwrap();
        upload.synchronize().unwrap();
        assert!(!event.query().unwrap());
        drop(held);
        event.synchronize().unwrap();
        assert_eq!(*lock.lock().unwrap(), 1);
    });
}

/// The checker orders a function's accesses as accesses of its stream.
#[test]
fn a_checker_finds_no_race_in_ordered_functions() {
    let config = SimConfig::new().check(Check::Record);
    Device::simulated(config, |gpu| {
        round_trip(&gpu).unwrap();
        graphs::replays(&gpu).unwrap();
        assert!(gpu.races().is_empty(), "{:?}", gpu.races());
    })
    .unwrap();
}
