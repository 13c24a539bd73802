//! Statistics, limits and trimming of device memory.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};

cuda_rt::streams! {
    Compute;
}

const MIB: usize = 1 << 20;

#[test]
fn a_pool_keeps_freed_memory_until_it_is_trimmed() {
    for seed in 0..24 {
        Device::simulated(SimConfig::new().seed(seed), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let a = compute.alloc_zeroed::<u8>(3 * MIB).unwrap();
            let b = compute.alloc_zeroed::<u8>(MIB).unwrap();
            let stats = gpu.memory_pool_stats().unwrap();
            assert_eq!((stats.used_bytes, stats.reserved_bytes), (4 << 20, 4 << 20));
            drop(a);
            compute.synchronize().unwrap();
            let stats = gpu.memory_pool_stats().unwrap();
            assert_eq!((stats.used_bytes, stats.reserved_bytes), (1 << 20, 4 << 20));
            gpu.trim(2 << 20).unwrap();
            assert_eq!(gpu.memory_pool_stats().unwrap().reserved_bytes, 2 << 20);
            gpu.trim(0).unwrap();
            let stats = gpu.memory_pool_stats().unwrap();
            assert_eq!(
                (stats.reserved_bytes, stats.reserved_peak_bytes),
                (1 << 20, 4 << 20)
            );
            drop(b);
            gpu.set_release_threshold(0).unwrap();
            compute.synchronize().unwrap();
            gpu.reset_memory_peaks().unwrap();
            let stats = gpu.memory_pool_stats().unwrap();
            assert_eq!((stats.reserved_bytes, stats.reserved_peak_bytes), (0, 0));
        })
        .unwrap();
    }
}

/// Memory whose free is pending is not returned: work before the free still uses it.
#[test]
fn a_pending_free_is_not_trimmed() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        drop(compute.alloc_zeroed::<u8>(MIB).unwrap());
        gpu.trim(0).unwrap();
        assert_eq!(gpu.memory_pool_stats().unwrap().reserved_bytes, 1 << 20);
        compute.synchronize().unwrap();
        gpu.trim(0).unwrap();
        assert_eq!(gpu.memory_pool_stats().unwrap().reserved_bytes, 0);
    })
    .unwrap();
}

#[test]
fn pool_calls_report_their_errors() {
    Device::simulated(SimConfig::new(), |gpu| {
        let simulator = gpu.simulator().unwrap();
        let check = |call, result: cuda_rt::Result<()>, during: &str| {
            let text = result.unwrap_err().to_string();
            assert!(text.starts_with(during), "{text}");
            assert!(text.contains(Call::name(call)), "{text}");
        };
        let fail = |call| simulator.fail_next(call, ErrorCode::NOT_SUPPORTED);
        fail(Call::TrimPool);
        check(Call::TrimPool, gpu.trim(0), "Device::trim");
        fail(Call::SetPool);
        check(
            Call::SetPool,
            gpu.set_release_threshold(0),
            "Device::set_release_threshold",
        );
        fail(Call::SetPool);
        check(
            Call::SetPool,
            gpu.reset_memory_peaks(),
            "Device::reset_memory_peaks",
        );
        fail(Call::PoolStats);
        check(
            Call::PoolStats,
            gpu.memory_pool_stats().map(drop),
            "Device::memory_pool_stats",
        );
    })
    .unwrap();
}
