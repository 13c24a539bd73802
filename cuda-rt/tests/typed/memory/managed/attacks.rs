//! Attacks on managed memory: it is dropped, forgotten, trimmed or reused while work uses it.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::driver::{Advice, ErrorCode, Location};
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Grid1};
use device_kernels::roots;

use super::{Compute, Other, has_managed};
use crate::devices::for_each_device;
use crate::leftovers::nothing_is_left;

const LEN: usize = 256;
const GRID: fn(usize) -> Grid1 = Grid1::covering;

/// A block that a slow kernel still writes is dropped, and the same size is asked for at once.
#[test]
fn attack_take_a_block_that_a_kernel_still_writes() {
    for_each_device(|gpu| {
        if !has_managed(gpu) {
            return;
        }
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let input = compute.alloc_from_slice(&[9.0; LEN]).unwrap();
        for round in 0..8 {
            let mut data = compute.adopt(gpu.managed::<f32>(LEN).unwrap()).unwrap();
            roots(&compute, GRID(LEN), &input, &mut data, 2000).unwrap();
            if round % 2 == 0 {
                drop(data);
            } else {
                drop(compute.release(data).unwrap());
            }
            let mut mine = gpu.managed::<f32>(LEN).unwrap();
            mine.host_mut(|mine| mine.fill(round as f32)).unwrap();
            gpu.trim_managed();
            compute.synchronize().unwrap();
            assert_eq!(mine.to_vec().unwrap(), [round as f32; LEN]);
        }
        assert!(gpu.races().is_empty());
    });
}

/// The device ends while work on dropped memory is pending.
#[test]
fn attack_drop_the_device_under_pending_work() {
    nothing_is_left(|gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let mut data = compute.adopt(gpu.managed::<u32>(LEN).unwrap()).unwrap();
        compute.fill(&mut data, 1).unwrap();
        let data = other.acquire(compute.release(data).unwrap()).unwrap();
        other.prefetch(&data, .., Location::Host).unwrap();
        drop(data);
        drop(compute.release(compute.adopt(gpu.managed::<u32>(LEN).unwrap()).unwrap()));
        std::mem::drop(gpu.managed::<u8>(1).unwrap());
    });
}

/// The wait for the last work fails as the device ends. The memory is not freed.
#[test]
fn attack_free_behind_a_wait_that_failed() {
    for seed in 0..12 {
        let config = SimConfig::default().seed(seed).order(Order::Lazy);
        let simulator = Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut data = compute.adopt(gpu.managed::<u32>(LEN).unwrap()).unwrap();
            compute.fill(&mut data, 1).unwrap();
            drop(data);
            let simulator = gpu.simulator().unwrap().clone();
            simulator.fail_next(Call::SynchronizeEvent, ErrorCode::OUT_OF_MEMORY);
            simulator
        })
        .unwrap();
        assert_eq!(simulator.counters().managed_live, 1);
    }
}

/// The end of the last use cannot be recorded. The block is never given out again.
#[test]
fn attack_reuse_a_block_whose_end_is_unknown() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let simulator = gpu.simulator().unwrap();
        let mut data = compute.adopt(gpu.managed::<u32>(LEN).unwrap()).unwrap();
        compute.fill(&mut data, 1).unwrap();
        simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
        drop(data);
        let allocated = simulator.counters().calls(Call::AllocManaged);
        drop(gpu.managed::<u32>(LEN).unwrap());
        assert_eq!(simulator.counters().calls(Call::AllocManaged), allocated + 1);
        assert_eq!(gpu.trim_managed(), 64 << 10);
        assert_eq!(simulator.counters().managed_live, 1);
    })
    .unwrap();
}

/// The query for the last use fails when a block is looked for. The block is not taken.
#[test]
fn attack_take_a_block_behind_a_query_that_failed() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let simulator = gpu.simulator().unwrap();
        let mut data = compute.adopt(gpu.managed::<u32>(LEN).unwrap()).unwrap();
        compute.fill(&mut data, 1).unwrap();
        drop(data);
        for trim in [false, true] {
            simulator.fail_next(Call::QueryEvent, ErrorCode::INVALID_VALUE);
            if trim {
                assert_eq!(gpu.trim_managed(), 0);
            } else {
                std::mem::forget(gpu.managed::<u32>(LEN).unwrap());
                assert_eq!(simulator.counters().calls(Call::AllocManaged), 2);
            }
        }
        assert!(gpu.races().is_empty());
    })
    .unwrap();
}

/// Panics in the host's closure, and in the function that gives the elements.
#[test]
fn attack_panic_while_the_host_has_the_memory() {
    for_each_device(|gpu| {
        if !has_managed(gpu) {
            return;
        }
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = gpu.managed::<u32>(LEN).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            data.host_mut(|data| {
                data[0] = 5;
                panic!("on purpose")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(data.host(|data| (data[0], data[1])).unwrap(), (5, 0));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let uninit = gpu.managed_uninit::<u32>(LEN).unwrap();
            drop(uninit.init_with(|at| if at < 9 { 9 } else { panic!("on purpose") }));
        }));
        assert!(panicked.is_err());
        // Closures inside closures.
        let other = gpu.managed_from(&[3_u32; LEN]).unwrap();
        data.host_mut(|data| {
            other
                .host(|other| {
                    data.copy_from_slice(other);
                    drop(gpu.managed::<u32>(1).unwrap());
                    compute.synchronize().unwrap();
                })
                .unwrap();
        })
        .unwrap();
        assert_eq!(data.to_vec().unwrap(), [3; LEN]);
    });
}

/// Forgotten memory is leaked, and nothing else happens.
#[test]
fn attack_forget_what_is_in_flight() {
    for_each_device(|gpu| {
        if !has_managed(gpu) {
            return;
        }
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = compute.adopt(gpu.managed::<u32>(LEN).unwrap()).unwrap();
        compute.fill(&mut data, 1).unwrap();
        std::mem::forget(compute.release(data).unwrap());
        let mut next = gpu.managed::<u32>(LEN).unwrap();
        next.host_mut(|next| next.fill(2)).unwrap();
        compute.synchronize().unwrap();
        assert_eq!(next.to_vec().unwrap(), [2; LEN]);
    });
}

/// Ranges beyond the buffer reach neither the driver nor the rest of the block.
#[test]
fn attack_advise_and_prefetch_beyond_the_end() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let data = gpu.managed::<u32>(LEN).unwrap();
        let beyond = catch_unwind(AssertUnwindSafe(|| {
            data.advise(LEN - 1..LEN + 1, Advice::SetReadMostly)
        }));
        assert!(beyond.is_err());
        let data = compute.adopt(data).unwrap();
        let beyond = catch_unwind(AssertUnwindSafe(|| {
            compute.prefetch(&data, ..LEN + 1, Location::Host)
        }));
        assert!(beyond.is_err());
        let counters = gpu.simulator().unwrap().counters();
        assert_eq!(
            (counters.calls(Call::Advise), counters.calls(Call::Prefetch)),
            (0, 0)
        );
    })
    .unwrap();
}
