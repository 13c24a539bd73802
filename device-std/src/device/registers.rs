//! Special registers, barriers and the address of shared memory: the hardware's view of this
//! thread.

use core::arch::nvptx;

macro_rules! registers {
    ($($name:ident = $intrinsic:ident;)*) => { $(
        #[inline(always)]
        pub(crate) fn $name() -> u32 {
            // SAFETY: the call reads a special register, which every thread has.
            (unsafe { nvptx::$intrinsic() }) as u32
        }
    )* };
}

registers! {
    thread_x = _thread_idx_x;
    thread_y = _thread_idx_y;
    thread_z = _thread_idx_z;
    block_x = _block_idx_x;
    block_y = _block_idx_y;
    block_z = _block_idx_z;
    block_size_x = _block_dim_x;
    block_size_y = _block_dim_y;
    block_size_z = _block_dim_z;
    grid_x = _grid_dim_x;
    grid_y = _grid_dim_y;
}

/// The thread's x over the whole grid. It lies below 2^31 · 2^10, so the 64-bit product cannot
/// wrap.
#[inline(always)]
pub(crate) fn global_x() -> u64 {
    block_x() as u64 * block_size_x() as u64 + thread_x() as u64
}

/// The thread's y over the whole grid.
#[inline(always)]
pub(crate) fn global_y() -> u64 {
    block_y() as u64 * block_size_y() as u64 + thread_y() as u64
}

/// The thread's z over the whole grid.
#[inline(always)]
pub(crate) fn global_z() -> u64 {
    block_z() as u64 * block_size_z() as u64 + thread_z() as u64
}

/// Waits for every thread of the block (`__syncthreads`).
///
/// # Safety
/// Every thread of the block executes this same barrier.
#[inline(always)]
pub(crate) unsafe fn barrier() {
    // SAFETY: the caller says that every thread of the block executes this barrier.
    unsafe { nvptx::_syncthreads() }
}

mod barriers {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
        pub(super) fn or(id: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.barrier.cta.red.and.aligned.all"]
        pub(super) fn and(id: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
        pub(super) fn popc(id: u32, predicate: bool) -> u32;
    }
}

/// Waits for every thread of the block, and returns whether the predicate held in any of them
/// (`__syncthreads_or`).
///
/// # Safety
/// Every thread of the block executes this same barrier.
#[inline(always)]
pub(crate) unsafe fn barrier_or(predicate: bool) -> bool {
    // SAFETY: the caller says that every thread of the block executes this barrier.
    unsafe { barriers::or(0, predicate) }
}

/// Waits for every thread of the block, and returns whether the predicate held in all of them
/// (`__syncthreads_and`).
///
/// # Safety
/// Every thread of the block executes this same barrier.
#[inline(always)]
pub(crate) unsafe fn barrier_and(predicate: bool) -> bool {
    // SAFETY: the caller says that every thread of the block executes this barrier.
    unsafe { barriers::and(0, predicate) }
}

/// Waits for every thread of the block, and returns the number of threads in which the predicate
/// held (`__syncthreads_count`).
///
/// # Safety
/// Every thread of the block executes this same barrier.
#[inline(always)]
pub(crate) unsafe fn barrier_count(predicate: bool) -> u32 {
    // SAFETY: the caller says that every thread of the block executes this barrier.
    unsafe { barriers::popc(0, predicate) }
}

mod convergence {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.activemask"]
        pub(super) fn active_mask() -> u32;
    }
}

/// Ends code that differs by thread, after a phase without a barrier.
///
/// LLVM neither duplicates this instruction, nor moves a branch around it. Without it, a thread
/// that has evaluated a condition in its own code may jump past the next evaluation of the same
/// condition in block-level code. The thread would then take a value from another instruction than
/// the other threads. The two values are equal, but `kernel-build` could not prove it, and would
/// refuse the PTX. The bits of a NaN may even differ.
#[inline(always)]
pub(crate) fn end_of_phase() {
    // SAFETY: the call reads the mask of active lanes, which every thread may do anywhere.
    let _ = unsafe { convergence::active_mask() };
}

/// The start of the block's dynamic shared memory, aligned to 16 bytes.
#[inline(always)]
pub(crate) fn shared_memory() -> *mut u8 {
    core::intrinsics::gpu::gpu_launch_sized_workgroup_mem::<u128>().cast()
}
