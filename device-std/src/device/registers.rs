//! Where this thread runs, as the hardware's special registers tell.

use core::arch::nvptx;

macro_rules! registers {
    ($($name:ident = $intrinsic:ident;)*) => { $(
        #[inline(always)]
        pub(crate) fn $name() -> u32 {
            // SAFETY: reads a special register; every thread has it.
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

/// The thread's x over the whole grid. Below 2^31 · 2^10: a 64-bit product cannot wrap.
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
    // SAFETY: passed on to the caller.
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

/// Waits for every thread of the block, and tells whether the predicate held in any of them
/// (`__syncthreads_or`).
///
/// # Safety
/// As [`barrier`].
#[inline(always)]
pub(crate) unsafe fn barrier_or(predicate: bool) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { barriers::or(0, predicate) }
}

/// Waits for every thread of the block, and tells whether the predicate held in all of them
/// (`__syncthreads_and`).
///
/// # Safety
/// As [`barrier`].
#[inline(always)]
pub(crate) unsafe fn barrier_and(predicate: bool) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { barriers::and(0, predicate) }
}

/// Waits for every thread of the block, and counts those in which the predicate held
/// (`__syncthreads_count`).
///
/// # Safety
/// As [`barrier`].
#[inline(always)]
pub(crate) unsafe fn barrier_count(predicate: bool) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { barriers::popc(0, predicate) }
}

mod convergence {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.activemask"]
        pub(super) fn active_mask() -> u32;
    }
}

/// Ends code that differs by thread, where no barrier does.
///
/// LLVM neither duplicates this instruction, nor leads a branch around it. Without it, a thread
/// that has asked in its own code what block-level code asks next would be led past the second
/// question, and take the answer's value from another place than the other threads. The values
/// would be equal, but not provably so (`kernel-build` would refuse the PTX), and the bits of a NaN
/// not even that.
#[inline(always)]
pub(crate) fn end_of_phase() {
    // SAFETY: reads which lanes are active; every thread may, anywhere.
    let _ = unsafe { convergence::active_mask() };
}

/// Where the block's dynamic shared memory starts, aligned to 16 bytes.
#[inline(always)]
pub(crate) fn shared_memory() -> *mut u8 {
    core::intrinsics::gpu::gpu_launch_sized_workgroup_mem::<u128>().cast()
}
