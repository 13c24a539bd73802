//! Attacks on the pool of pinned memory: the device is dropped while a download is pending.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};

use crate::leftovers::nothing_is_left;

cuda_rt::streams! {
    Compute;
}

const LEN: usize = 128;

/// Pinned memory with a pending download is freed with the device: unmapping waits for the
/// download.
#[test]
fn attack_drop_the_device_with_a_download_into_dropped_memory() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let device = compute.alloc_zeroed::<u32>(LEN).unwrap();
        for _ in 0..4 {
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            compute.copy_to_host(&device, &mut host).unwrap();
            drop(host);
        }
    });
}

/// The device is dropped while a download into dropped memory may be pending, and cannot be waited
/// for. The memory stays mapped and page-locked.
#[test]
fn attack_unmap_behind_a_wait_that_failed() {
    for seed in 0..12 {
        let simulator = Device::simulated(SimConfig::default().seed(seed).order(Order::Lazy), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let device = compute.alloc_zeroed::<u32>(LEN).unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            compute.copy_to_host(&device, &mut host).unwrap();
            drop(host);
            let simulator = gpu.simulator().unwrap().clone();
            simulator.fail_next(Call::SynchronizeEvent, ErrorCode::OUT_OF_MEMORY);
            simulator
        })
        .unwrap();
        assert_eq!(simulator.counters().registrations_live, 1);
    }
}
