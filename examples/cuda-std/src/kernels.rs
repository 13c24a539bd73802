//! Kernels in the raw SIMT style of Rust-CUDA. This file is also the whole of a crate for
//! rustc_codegen_nvvm: see docs/rust-cuda.md.

use cuda_std::prelude::*;
use cuda_std::shared_array;

/// `y[i] = a * x[i] + y[i]`, one thread an element.
///
/// # Safety
/// `y` is that of `y_len` elements, which nothing else uses.
#[kernel]
#[allow(
    improper_ctypes_definitions,
    reason = "rustc_codegen_nvvm passes a slice as an address and a length"
)]
pub unsafe fn axpy(a: f32, x: &[f32], y: *mut f32, y_len: usize) {
    let i = thread::index_1d() as usize;
    if i < x.len() && i < y_len {
        // SAFETY: in bounds, and this thread's alone.
        let y = unsafe { &mut *y.wrapping_add(i) };
        *y = a.mul_add(x[i], *y);
    }
}

/// `sums[b]` is the sum of the elements of block `b`, by a tree in shared memory. A block has 256
/// threads or fewer, a power of two.
///
/// # Safety
/// `sums` is that of `sums_len` elements, which nothing else uses.
#[kernel]
#[allow(improper_ctypes_definitions, reason = "as above")]
pub unsafe fn block_sums(x: &[f32], sums: *mut f32, sums_len: usize) {
    let partial = shared_array![f32; 256];
    let (i, lane) = (thread::index_1d() as usize, thread::thread_idx_x() as usize);
    // SAFETY: a block has no more threads than there are elements, and each writes its own.
    unsafe { *partial.wrapping_add(lane) = if i < x.len() { x[i] } else { 0.0 } };
    thread::sync_threads();
    let mut stride = thread::block_dim_x() as usize / 2;
    while stride > 0 {
        if lane < stride {
            // SAFETY: below the number of threads; written before the barrier.
            let other = unsafe { *partial.wrapping_add(lane + stride) };
            // SAFETY: this thread's own.
            unsafe { *partial.wrapping_add(lane) += other };
        }
        thread::sync_threads();
        stride /= 2;
    }
    let block = thread::block_idx_x() as usize;
    if lane == 0 && block < sums_len {
        // SAFETY: written before the last barrier.
        let sum = unsafe { *partial };
        // SAFETY: in bounds, and this block's alone.
        unsafe { *sums.wrapping_add(block) = sum };
    }
}
