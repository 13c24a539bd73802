//! The model of occupancy: how many blocks a multiprocessor holds at a time.
//!
//! A simulated device compiles no kernel. The model takes each kernel for one of 32 registers a
//! thread, without local memory. The limits are those of the CUDA C++ Programming Guide, "Technical
//! Specifications per Compute Capability".

use cuda_rt_driver::{KernelAttributes, Properties, SuggestedBlock};

/// Registers that each thread of each kernel has.
const REGISTERS_PER_THREAD: u32 = 32;
const REGISTERS_PER_MULTIPROCESSOR: u32 = 64 << 10;
/// Shared memory of each block that the system reserves. A multiprocessor has as much more than its
/// largest block.
const RESERVED_BYTES_PER_BLOCK: u32 = 1 << 10;

/// What the multiprocessors of a compute capability hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) threads: u32,
    pub(super) blocks: u32,
    /// Shared memory of a block.
    pub(super) shared_bytes: u32,
}

/// Compute capability, threads, blocks, and KiB of shared memory of a block.
const KNOWN: [((u32, u32), u32, u32, u32); 9] = [
    ((8, 0), 2048, 32, 163),
    ((8, 6), 1536, 16, 99),
    ((8, 7), 1536, 16, 163),
    ((8, 9), 1536, 24, 99),
    ((9, 0), 2048, 32, 227),
    ((10, 0), 2048, 32, 227),
    ((10, 3), 2048, 32, 227),
    ((12, 0), 1536, 24, 99),
    ((12, 1), 1536, 24, 99),
];

impl Limits {
    pub(super) fn of(compute_capability: (u32, u32)) -> Option<Self> {
        let (_, threads, blocks, kib) = *KNOWN.iter().find(|known| known.0 == compute_capability)?;
        Some(Self {
            threads,
            blocks,
            shared_bytes: kib << 10,
        })
    }

    /// The compute capabilities that [`of`](Self::of) knows, for a message.
    pub(super) fn all_known() -> String {
        let names = KNOWN.map(|((major, minor), ..)| format!("{major}.{minor}"));
        names.join(", ")
    }
}

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
    let shared_of_all = device.max_shared_bytes_per_block_optin + RESERVED_BYTES_PER_BLOCK;
    let by_shared = shared_of_all / (shared_bytes + RESERVED_BYTES_PER_BLOCK);
    let by_blocks = Limits::of(device.compute_capability).map_or(32, |limits| limits.blocks);
    by_blocks.min(by_threads).min(by_registers).min(by_shared)
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
            compute_capability: (9, 0),
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
    fn a_smaller_device_holds_fewer_blocks() {
        let limits = Limits::of((8, 6)).unwrap();
        let smaller = Properties {
            compute_capability: (8, 6),
            max_threads_per_multiprocessor: limits.threads,
            max_shared_bytes_per_block_optin: limits.shared_bytes,
            ..device()
        };
        let blocks = |threads, shared_bytes| active_blocks(&smaller, threads, shared_bytes);
        assert_eq!(blocks(32, 0), 16, "blocks");
        assert_eq!(blocks(256, 0), 6, "threads");
        assert_eq!(blocks(256, 49 << 10), 2, "shared memory");
        assert_eq!(blocks(256, 99 << 10), 1, "shared memory");
        assert_eq!(blocks(256, (99 << 10) + 1), 0, "too much shared memory");
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
