//! Questions about a kernel, and launches that follow the answers.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::{BlockSum, Scale, block_sum, scale};
use device_std::prelude::*;

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
}

/// Threads that are active on a multiprocessor, of all that it holds.
fn occupancy<D: Live>(gpu: &Device<D>, threads: u32) -> f64 {
    let active = gpu.max_active_blocks::<Scale>(threads).unwrap() * threads;
    f64::from(active) / f64::from(gpu.properties().max_threads_per_multiprocessor)
}

/// NVIDIA's sample `simpleOccupancy`: a launch in blocks of 32 threads, and in blocks of the
/// suggested size. The results are equal, and the suggested size fills the device better.
#[test]
fn the_suggested_block_fills_the_device() {
    const LEN: usize = 100_000;
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let numbers: Vec<f32> = (0..LEN).map(|at| at as f32).collect();
        let numbers = compute.alloc_from_slice(&numbers).unwrap();
        let suggested = gpu.suggested_block::<Scale>().unwrap();
        for threads in [32, suggested.threads] {
            let mut doubled = compute.alloc_zeroed::<f32>(LEN).unwrap();
            let grid = Grid1::covering(LEN).block(threads);
            scale(&compute, grid, &numbers, &mut doubled, 2.0).unwrap();
            let doubled = compute.copy_to_vec(&doubled).unwrap();
            assert!(
                doubled
                    .iter()
                    .enumerate()
                    .all(|(at, value)| *value == 2.0 * at as f32)
            );
        }
        let (small, best) = (occupancy(gpu, 32), occupancy(gpu, suggested.threads));
        assert!(small <= best && best > 0.5 && best <= 1.0, "{small}, {best}");
        let blocks = gpu.max_active_blocks::<Scale>(suggested.threads).unwrap();
        assert_eq!(suggested.fewest_blocks, blocks * gpu.properties().multiprocessors);
    });
}

/// The 32 bytes of `BlockUninit<f32, 8>` are passed by the launch: a driver knows nothing of them.
#[test]
fn shared_memory_of_a_launch_is_counted() {
    for_each_device(|gpu| {
        let attributes = gpu.kernel_attributes::<BlockSum>().unwrap();
        assert_eq!(attributes.shared_bytes_per_block, 32);
        assert_eq!(
            gpu.kernel_attributes::<Scale>().unwrap().shared_bytes_per_block,
            0
        );
        assert_eq!(attributes.is_modelled, gpu.is_simulated());
    });
    Device::simulated(SimConfig::new(), |gpu| {
        // 12 KiB for each block, and 1 KiB that is reserved, of 228.
        assert_eq!(gpu.max_active_blocks::<Tiles>(1024).unwrap(), 17);
        assert_eq!(
            gpu.kernel_attributes::<Tiles>().unwrap().shared_bytes_per_block,
            12 << 10
        );
    })
    .unwrap();
}

#[kernel(block = (8, 4), handle = Tiles)]
fn tiles(mut block: Block2, tile: BlockUninit<[f32; 96], 32>, mut sums: PerBlock<f32>) {
    let _ = tile;
    let zeros = block.map(|_| 0.0);
    sums.set_from_first(&block, &zeros);
}

/// The size in the call is ignored, as the size in a grid is.
#[test]
fn a_kernel_with_a_block_size_is_asked_in_its_own_blocks() {
    for_each_device(|gpu| {
        let suggested = gpu.suggested_block::<BlockSum>().unwrap();
        assert_eq!(suggested.threads, 256);
        let active = gpu.max_active_blocks::<BlockSum>(256).unwrap();
        assert_eq!(suggested.fewest_blocks, active * gpu.properties().multiprocessors);
        for threads in [0, 32, 1024] {
            assert_eq!(gpu.max_active_blocks::<BlockSum>(threads).unwrap(), active);
        }
    });
}

/// A grid in blocks takes the kernel's block size: every launch below has three blocks of 256.
#[test]
fn a_grid_of_blocks_takes_the_kernels_block() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let ones = compute
            .init_filled(compute.alloc_uninit::<f32>(700).unwrap(), 1.0)
            .unwrap();
        for grid in [
            Grid1::blocks(3),
            Grid1::blocks(3).block(32),
            Grid1::covering(3 * 256),
        ] {
            let mut sums = compute.alloc_zeroed::<f32>(3).unwrap();
            block_sum(&compute, grid, &ones, &mut sums).unwrap();
            assert_eq!(compute.copy_to_vec(&sums).unwrap(), [256.0, 256.0, 188.0]);
        }
    });
}

#[test]
fn errors_name_the_call() {
    Device::simulated(SimConfig::new(), |gpu| {
        let simulator = gpu.simulator().unwrap();
        let expect = |call: &str, result: Result<(), Error>| match result {
            Err(Error::Driver { during, .. }) => assert_eq!(during, call),
            other => panic!("{call}: {other:?}"),
        };
        simulator.fail_nth(Call::KernelAttributes, 1, ErrorCode::INVALID_HANDLE);
        expect(
            "Device::kernel_attributes",
            gpu.kernel_attributes::<Scale>().map(drop),
        );
        simulator.fail_nth(Call::SuggestBlock, 1, ErrorCode::INVALID_HANDLE);
        expect(
            "Device::suggested_block",
            gpu.suggested_block::<Scale>().map(drop),
        );
        simulator.fail_nth(Call::MaxActiveBlocks, 1, ErrorCode::INVALID_HANDLE);
        expect(
            "Device::suggested_block",
            gpu.suggested_block::<BlockSum>().map(drop),
        );
        expect(
            "Device::max_active_blocks",
            gpu.max_active_blocks::<Scale>(0).map(drop),
        );
    })
    .unwrap();
}
