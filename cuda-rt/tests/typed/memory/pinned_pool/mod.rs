//! Reuse, statistics, limits and trimming of pinned memory.
#![forbid(unsafe_code)]

mod attacks;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Error, PinnedError};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Upload;
    Compute;
    Download;
}

#[test]
fn a_pinned_block_is_reused_only_when_its_copy_is_done() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let mut devices = Vec::new();
        for round in 0..32u32 {
            let host = upload.adopt(gpu.pinned_from(&[round; 300]).unwrap()).unwrap();
            let mut device = upload.alloc_zeroed::<u32>(300).unwrap();
            upload.copy_to_device(&host, &mut device).unwrap();
            devices.push(device);
        }
        for (device, round) in devices.into_iter().zip(0..) {
            let mut back = upload.adopt(gpu.pinned::<u32>(300).unwrap()).unwrap();
            upload.copy_to_host(&device, &mut back).unwrap();
            assert_eq!(
                *upload.release(back).unwrap().synchronize().unwrap(),
                [round; 300]
            );
        }
    });
}

const MIB: usize = 1 << 20;

#[test]
fn pinned_memory_is_given_back_when_asked() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let small = gpu.pinned::<u8>(MIB).unwrap();
        let large = gpu.pinned::<u8>(4 * MIB).unwrap();
        let full = gpu.pinned_stats();
        assert_eq!(
            (full.blocks_held, full.bytes_held, full.bytes_free),
            (2, 5 * MIB, 0)
        );
        assert_eq!(gpu.trim_pinned(0), 0, "both are in use");
        drop(large);
        assert_eq!(gpu.pinned_stats().bytes_free, 4 * MIB);
        let mut device = compute.alloc_zeroed::<u8>(MIB).unwrap();
        let small = compute.adopt(small).unwrap();
        compute.copy_to_device(&small, &mut device).unwrap();
        drop(small);
        compute.synchronize().unwrap();
        assert_eq!(gpu.trim_pinned(2 * MIB), 4 * MIB, "the largest first");
        assert_eq!(gpu.trim_pinned(MIB), 0, "no more than asked");
        assert_eq!(gpu.trim_pinned(0), MIB);
        let empty = gpu.pinned_stats();
        assert_eq!(
            (empty.blocks_held, empty.bytes_held, empty.blocks_free),
            (0, 0, 0)
        );
        assert_eq!((empty.bytes_held_peak, empty.bytes_mapped), (5 * MIB, 5 * MIB));
    });
}

/// Trimming never unmaps what a pending copy uses.
#[test]
fn pinned_memory_in_flight_is_not_trimmed() {
    for seed in 0..24 {
        Device::simulated(SimConfig::new().seed(seed).order(Order::Lazy), |gpu| {
            let (compute, download) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Download<_>>().unwrap(),
            );
            let mut device = compute.alloc_zeroed::<u32>(1024).unwrap();
            let host = compute.adopt(gpu.pinned_from(&[5_u32; 1024]).unwrap()).unwrap();
            compute.copy_to_device(&host, &mut device).unwrap();
            drop(host);
            let part = {
                let mut host = download.adopt(gpu.pinned::<u32>(2048).unwrap()).unwrap();
                drop(host.split_off(1024));
                host
            };
            assert_eq!(gpu.trim_pinned(0), 0);
            let device = download.acquire(compute.release(device).unwrap()).unwrap();
            let mut part = part;
            download.copy_to_host(&device, &mut part).unwrap();
            let part = download.release(part).unwrap().synchronize().unwrap();
            assert_eq!(*part, [5; 1024]);
            drop(part);
            assert_eq!(gpu.trim_pinned(0), 3 * 4096);
        })
        .unwrap();
    }
}

#[test]
fn a_pinned_limit_is_kept() {
    for_each_device(|gpu| {
        gpu.set_pinned_limit(Some(2 * MIB));
        let a = gpu.pinned::<u8>(MIB).unwrap();
        let b = gpu.pinned::<u8>(MIB).unwrap();
        let error = gpu.pinned::<u8>(1).unwrap_err();
        assert!(
            matches!(error, Error::Pinned(PinnedError::Limit { bytes: 4096, held_bytes, limit_bytes, .. }) if held_bytes == 2 * MIB && limit_bytes == 2 * MIB),
            "{error}"
        );
        drop((a, b));
        // Free blocks of another size are unmapped to make room.
        let c = gpu.pinned::<u8>(MIB + MIB / 2).unwrap();
        let held = gpu.pinned_stats().bytes_held;
        assert!(held <= 2 * MIB, "{held}");
        assert!(gpu.pinned::<u8>(usize::MAX / 4).is_err());
        gpu.set_pinned_limit(None);
        assert_eq!(gpu.pinned_stats().limit_bytes, None);
        let _d = gpu.pinned::<u8>(4 * MIB).unwrap();
        drop(c);
    });
}

/// If a block cannot be mapped, the room made for it is free again.
#[test]
fn a_failed_mapping_counts_for_nothing() {
    Device::simulated(SimConfig::new(), |gpu| {
        gpu.set_pinned_limit(Some(MIB));
        for _ in 0..3 {
            gpu.simulator()
                .unwrap()
                .fail_next(Call::RegisterHost, ErrorCode::OUT_OF_MEMORY);
            assert!(gpu.pinned::<u8>(MIB).is_err());
        }
        assert_eq!(gpu.pinned_stats().bytes_held, 0);
        let _fits = gpu.pinned::<u8>(MIB).unwrap();
    })
    .unwrap();
}

/// Threads that allocate at the same time never pass the limit together.
#[test]
fn a_pinned_limit_holds_for_many_threads() {
    Device::simulated(SimConfig::new(), |gpu| {
        gpu.set_pinned_limit(Some(8 * 4096));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let kept: Vec<_> = (0..3).map(|_| gpu.pinned::<u8>(4096)).collect();
                        drop(kept);
                    }
                });
            }
        });
        let peak = gpu.pinned_stats().bytes_held_peak;
        assert!(peak <= 8 * 4096, "{peak}");
    })
    .unwrap();
}
