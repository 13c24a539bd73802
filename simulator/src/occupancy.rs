//! The model of occupancy: how many blocks a multiprocessor holds at a time.
//!
//! A simulated device compiles no kernel. The model takes each kernel for one of 32 registers a
//! thread, without local memory, on a multiprocessor of compute capability 9.0. The limits are
//! those of the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".

use cuda_rt_driver::{KernelAttributes, Properties, SuggestedBlock};

/// Registers that each thread of each kernel has.
const REGISTERS_PER_THREAD: u32 = 32;
const REGISTERS_PER_MULTIPROCESSOR: u32 = 64 << 10;
const BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
const SHARED_BYTES_PER_MULTIPROCESSOR: u32 = 228 << 10;
/// Shared memory of each block that the system reserves.
const RESERVED_BYTES_PER_BLOCK: u32 = 1 << 10;

pub(super) fn attributes(device: &Properties) -> KernelAttributes {
    let mut attributes = KernelAttributes::new(REGISTERS_PER_THREAD, device.max_threads_per_block);
    attributes.is_modelled = true;
    attributes
}

/// Blocks of `threads` threads, not 0, that a multiprocessor holds; 0 if a block does not fit.
pub(super) fn active_blocks(device: &Properties, threads: u32, shared_bytes: u32) -> u32 {
    if threads > device.max_threads_per_block || shared_bytes > device.max_shared_bytes_per_block_optin {
        return 0;
    }
    // Warps are whole.
    let threads = threads.next_multiple_of(device.warp_size);
    let by_threads = device.max_threads_per_multiprocessor / threads;
    let by_registers = REGISTERS_PER_MULTIPROCESSOR / (threads * REGISTERS_PER_THREAD);
    let by_shared = SHARED_BYTES_PER_MULTIPROCESSOR / (shared_bytes + RESERVED_BYTES_PER_BLOCK);
    BLOCKS_PER_MULTIPROCESSOR
        .min(by_threads)
        .min(by_registers)
        .min(by_shared)
}

/// The largest of the block sizes with which most threads are active.
pub(super) fn suggestion(device: &Properties, shared_bytes: u32) -> SuggestedBlock {
    let warp = device.warp_size;
    let blocks = |threads: &u32| active_blocks(device, *threads, shared_bytes);
    let threads = (1..=device.max_threads_per_block / warp)
        .map(|warps| warps * warp)
        .max_by_key(|threads| blocks(threads) * threads)
        .unwrap_or(warp);
    SuggestedBlock {
        threads,
        fewest_blocks: blocks(&threads) * device.multiprocessors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_rt_driver::Backend;

    fn device() -> Properties {
        Properties {
            multiprocessors: 132,
            max_threads_per_multiprocessor: 2048,
            max_shared_bytes_per_block_optin: 227 << 10,
            ..Properties::named("modelled", Backend::Simulated)
        }
    }

    #[test]
    fn each_limit_holds() {
        let blocks = |threads, shared_bytes| active_blocks(&device(), threads, shared_bytes);
        assert_eq!(blocks(1024, 0), 2, "threads");
        assert_eq!(blocks(33, 0), 32, "blocks");
        assert_eq!(blocks(65, 0), 21, "whole warps");
        assert_eq!(blocks(32, 15 << 10), 14, "shared memory");
        assert_eq!(blocks(32, 48 << 10), 4, "shared memory");
        assert_eq!(blocks(1025, 0), 0, "a block too large");
        assert_eq!(blocks(32, 227 << 10), 1, "shared memory");
        assert_eq!(blocks(32, (227 << 10) + 1), 0, "too much shared memory");
    }

    #[test]
    fn the_suggested_block_fills_the_device() {
        let all = suggestion(&device(), 0);
        assert_eq!((all.threads, all.fewest_blocks), (1024, 264));
        // A multiprocessor of 1536 threads holds one block of 1024 threads, or two of 768.
        let smaller = Properties {
            max_threads_per_multiprocessor: 1536,
            ..device()
        };
        let two = suggestion(&smaller, 0);
        assert_eq!((two.threads, two.fewest_blocks), (768, 264));
    }
}
