//! Attacks on mapped pinned memory: it is dropped, forgotten or moved while kernels use it.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, Grid1};
use device_kernels::{roots, scale};

use super::{Compute, Other};
use crate::devices::for_each_device;
use crate::leftovers::nothing_is_left;

const LEN: usize = 256;
const GRID: fn(usize) -> Grid1 = Grid1::covering;

/// Memory that a slow kernel still writes is dropped, and other pinned memory is taken at once. If
/// the pool gave the block out again, the kernel would write into the new owner's elements.
#[test]
fn attack_take_a_block_that_a_kernel_still_writes() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let input = compute.alloc_from_slice(&[9.0; LEN]).unwrap();
        for round in 0..8 {
            let mut host = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
            let mapped = compute.mapped_mut(&mut host).unwrap();
            roots(&compute, GRID(LEN), &input, mapped, 2000).unwrap();
            drop(host);
            let uninit = compute.adopt(gpu.pinned_uninit::<f32>(LEN).unwrap()).unwrap();
            drop(compute.mapped_output(uninit).unwrap());
            let mut mine = gpu.pinned::<f32>(LEN).unwrap();
            mine.fill(round as f32);
            compute.synchronize().unwrap();
            assert_eq!(*mine, [round as f32; LEN]);
        }
    });
}

/// The device ends while a kernel may still write dropped host memory. Unmapping waits for it.
#[test]
fn attack_drop_the_device_under_a_kernel_on_host_memory() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let input = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let mut host = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
        let mapped = compute.mapped_mut(&mut host).unwrap();
        scale(&compute, GRID(LEN), &input, mapped, 2.0).unwrap();
        let left = host.split_off(100);
        drop(host);
        drop(left);
    });
}

/// A panic in the middle drops the buffer while a kernel runs on it.
#[test]
fn attack_panic_under_a_mapped_view() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let input = compute.alloc_from_slice(&[4.0; LEN]).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut host = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
            let mapped = compute.mapped_mut(&mut host).unwrap();
            roots(&compute, GRID(LEN), &input, mapped, 1000).unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let mut mine = gpu.pinned::<f32>(LEN).unwrap();
        mine.fill(1.0);
        compute.synchronize().unwrap();
        assert_eq!(*mine, [1.0; LEN]);
    });
}

/// A kernel writes host memory on one stream; another stream acquires the memory and reads it by a
/// kernel, while the host polls. No order of the seed shows a value from before.
#[test]
fn attack_read_on_another_stream_what_a_kernel_writes() {
    for seed in 0..24 {
        let config = SimConfig::default().seed(seed).order(Order::Lazy);
        Device::simulated(config, |gpu| {
            let (compute, other) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Other<_>>().unwrap(),
            );
            let input = compute.alloc_from_slice(&[3.0; LEN]).unwrap();
            let mut host = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
            let mapped = compute.mapped_mut(&mut host).unwrap();
            scale(&compute, GRID(LEN), &input, mapped, 2.0).unwrap();
            let host = other.acquire(compute.release(host).unwrap()).unwrap();
            let mut output = other.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
            let mapped = other.mapped_mut(&mut output).unwrap();
            scale(&other, GRID(LEN), other.mapped(&host).unwrap(), mapped, 5.0).unwrap();
            let handoff = other.release(output).unwrap();
            while !handoff.is_done().unwrap() {
                std::thread::yield_now();
            }
            assert_eq!(*handoff.synchronize().unwrap(), [30.0; LEN]);
            assert!(gpu.races().is_empty());
        })
        .unwrap();
    }
}

/// Pinned memory of a device that was simulated apart: its addresses mean nothing here.
#[test]
fn attack_map_memory_of_another_simulation() {
    Device::simulated(SimConfig::new(), |first| {
        Device::simulated(SimConfig::new(), |second| {
            let compute = second.stream::<Compute<_>>().unwrap();
            let host = first.pinned::<f32>(LEN).unwrap().for_device(&second).unwrap();
            let mut host = compute.adopt(host).unwrap();
            let error = compute.mapped_mut(&mut host).unwrap_err();
            assert_eq!(error.driver().unwrap().code(), ErrorCode::INVALID_VALUE);
        })
        .unwrap();
    })
    .unwrap();
}
