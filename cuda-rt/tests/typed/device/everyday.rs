//! The device as a whole: the number of GPUs, the wait for all of a device's work, and devices that
//! live as long as the process.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Error, Gpu, Handoff};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Left;
    Right;
}

#[test]
fn the_count_is_the_number_of_gpus_that_open() {
    let opened = Device::for_each_gpu(|gpu| gpu.properties().ordinal).unwrap();
    assert_eq!(opened, (0..Device::count().unwrap()).collect::<Vec<_>>());
}

/// Work on two streams of tags, on a stream of a pool, and a free that no stream owns: after the
/// wait nothing is pending.
#[test]
fn synchronize_waits_for_every_stream_of_the_device() {
    for seed in 0..8 {
        Device::simulated(SimConfig::new().order(Order::Lazy).seed(seed), |gpu| {
            let (left, right) = (
                gpu.stream::<Left<_>>().unwrap(),
                gpu.stream::<Right<_>>().unwrap(),
            );
            let pool = left.device().stream_pool(2).unwrap();
            let pending = || gpu.simulator().unwrap().counters().operations_pending;

            let kept = left.alloc_zeroed::<u32>(64).unwrap();
            gpu.synchronize().unwrap();
            assert_eq!(pending(), 0, "seed {seed}: the first stream");

            right.alloc_zeroed::<u32>(64).map(drop).unwrap();
            gpu.synchronize().unwrap();
            assert_eq!(pending(), 0, "seed {seed}: the second stream");

            for _ in 0..2 {
                pool.with(|stream| stream.alloc_zeroed::<u32>(64).map(drop))
                    .unwrap();
            }
            gpu.synchronize().unwrap();
            assert_eq!(pending(), 0, "seed {seed}: the pool");

            drop(left.release(kept).unwrap());
            gpu.synchronize().unwrap();
            assert_eq!(pending(), 0, "seed {seed}: the free");
        })
        .unwrap();
    }
}

#[test]
fn synchronize_finishes_work_on_every_device() {
    for_each_device(|gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let mut memory = left.alloc_zeroed::<u8>(1 << 20).unwrap();
        for value in 0..16 {
            left.fill(&mut memory, value).unwrap();
        }
        let handoff = left.release(memory).unwrap();
        let waits = right.record_event().unwrap();
        gpu.synchronize().unwrap();
        assert!(left.is_done().unwrap() && right.is_done().unwrap());
        assert!(handoff.is_done().unwrap() && waits.query().unwrap());
        drop(handoff);
    });
}

#[test]
fn a_failed_wait_for_the_device_is_an_error() {
    Device::simulated(SimConfig::new(), |gpu| {
        let left = gpu.stream::<Left<_>>().unwrap();
        let right = gpu.stream::<Right<_>>().unwrap();
        // One wait for each of the two streams, and one for the stream that frees.
        for failed in 1..=3 {
            gpu.simulator()
                .unwrap()
                .fail_nth(Call::SynchronizeStream, failed, ErrorCode::INVALID_HANDLE);
            let error = gpu.synchronize().unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::Driver {
                        during: "Device::synchronize",
                        ..
                    }
                ),
                "{error}"
            );
        }
        gpu.synchronize().unwrap();
        drop((left, right));
    })
    .unwrap();
}

#[test]
fn a_handoff_says_whether_it_is_done_and_stays() {
    for_each_device(|gpu| {
        let left = gpu.stream::<Left<_>>().unwrap();
        let memory = left.alloc_zeroed::<u8>(1 << 16).unwrap();
        let handoff = left.release(memory).unwrap();
        while !handoff.is_done().unwrap() {}
        assert!(handoff.is_done().unwrap(), "the answer is final");
        let idle = handoff.synchronize().unwrap();
        assert!(Handoff::ready(idle).is_done().unwrap());
    });
}

#[test]
fn a_future_says_whether_it_is_done_and_stays() {
    for_each_device(|gpu| {
        let left = gpu.stream::<Left<_>>().unwrap();
        let memory = left.alloc_zeroed::<u8>(1 << 16).unwrap();
        let mut future = left.release(memory).unwrap().into_future();
        while !future.is_done().unwrap() {}
        let memory = crate::block_on::block_on(&mut future).unwrap();
        assert_eq!(memory.len(), 1 << 16);
        assert!(future.is_done().unwrap(), "it has been ready");
    });
}

/// A lazy device runs nothing before someone waits, so the first answer is `false`: the answer is
/// about the work, and not about the call.
#[test]
fn pending_work_is_not_done() {
    let config = SimConfig::new().order(Order::Lazy).seed(3);
    Device::simulated(config, |gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let mut memory = left.alloc_zeroed::<u8>(64).unwrap();
        for value in 0..100 {
            left.fill(&mut memory, value).unwrap();
        }
        assert!(!left.is_done().unwrap());
        assert!(right.is_done().unwrap());
        let handoff = left.release(memory).unwrap();
        assert!(!handoff.is_done().unwrap());
        let simulator = gpu.simulator().unwrap();
        simulator.fail_nth(Call::QueryEvent, 1, ErrorCode::INVALID_HANDLE);
        let error = handoff.is_done().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Driver {
                    during: "Handoff::is_done",
                    ..
                }
            ),
            "{error}"
        );
        let memory = handoff.synchronize().unwrap();
        assert_eq!(memory.len(), 64);
        simulator.fail_nth(Call::QueryStream, 1, ErrorCode::INVALID_HANDLE);
        let error = left.is_done().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Driver {
                    during: "Stream::is_done",
                    ..
                }
            ),
            "{error}"
        );
    })
    .unwrap();
}

/// Devices that live as long as the process: threads of the standard library use them, and their
/// simulated devices have one host.
#[test]
fn several_devices_live_as_long_as_the_process() {
    // The first test that opens the process's simulated devices chooses their order: other tests
    // count on this one.
    let lazy = || SimConfig::default().order(Order::Lazy);
    let first = Device::open_or_simulate_with(lazy()).unwrap();
    let second = Device::open_or_simulate_gpu_with::<1>(lazy()).unwrap();
    let again = Device::open_or_simulate_gpu::<1>().unwrap();
    let upload = second.stream::<Left<Gpu<1>>>().unwrap();
    let worker = std::thread::spawn(move || {
        let memory = upload.alloc_from_slice(&[1_u32, 2, 3])?;
        upload.release(memory)
    });
    let there = worker.join().unwrap().unwrap();
    if first.is_simulated() != second.is_simulated() {
        eprintln!("ONE GPU ONLY: a GPU and a simulated device exchange nothing");
        assert!(first.peer_access(&second).is_err());
        return;
    }
    let here = first.stream::<Left>().unwrap();
    let mut copy = here.alloc_zeroed::<u32>(3).unwrap();
    let there = here.copy_from_peer(there, .., &mut copy).unwrap();
    assert_eq!(here.copy_to_vec(&copy).unwrap(), [1, 2, 3]);
    let back = again.stream::<Left<Gpu<1>>>().unwrap().acquire(there).unwrap();
    assert_eq!(back.len(), 3);
    let error = (second.is_simulated()).then(|| Device::open_gpu::<1>().unwrap_err().to_string());
    assert!(error.is_none_or(|error| error.contains("Gpu<1>")));
}
