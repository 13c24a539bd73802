//! Kernels in the raw SIMT style of Rust-CUDA. This file is also the only source of a crate for
//! rustc_codegen_nvvm: see docs/rust-cuda.md.

use cuda_std::prelude::*;
use cuda_std::shared_array;

/// `y[i] = a * x[i] + y[i]`, with one thread for each element.
///
/// # Safety
/// `y` is the address of `y_len` elements, which nothing else uses.
#[kernel]
#[allow(
    improper_ctypes_definitions,
    reason = "rustc_codegen_nvvm passes a slice as an address and a length"
)]
pub unsafe fn axpy(a: f32, x: &[f32], y: *mut f32, y_len: usize) {
    let i = thread::index_1d() as usize;
    if i < x.len() && i < y_len {
        // SAFETY: `i` is below `y_len`, and no other thread has this `i`.
        let y = unsafe { &mut *y.wrapping_add(i) };
        *y = a.mul_add(x[i], *y);
    }
}

/// `sums[b]` is the sum of the elements of block `b`, computed by a tree in shared memory. The
/// number of threads in a block is a power of two, at most 256.
///
/// # Safety
/// `sums` is the address of `sums_len` elements, which nothing else uses.
#[kernel]
#[allow(improper_ctypes_definitions, reason = "as above")]
pub unsafe fn block_sums(x: &[f32], sums: *mut f32, sums_len: usize) {
    let partial = shared_array![f32; 256];
    let (i, lane) = (thread::index_1d() as usize, thread::thread_idx_x() as usize);
    // SAFETY: a block has at most 256 threads, as many as `partial` has elements. Each thread
    // writes its own element.
    unsafe { *partial.wrapping_add(lane) = if i < x.len() { x[i] } else { 0.0 } };
    thread::sync_threads();
    let mut stride = thread::block_dim_x() as usize / 2;
    while stride > 0 {
        if lane < stride {
            // SAFETY: `lane + stride` is below the number of threads, and its element was written
            // before the last barrier.
            let other = unsafe { *partial.wrapping_add(lane + stride) };
            // SAFETY: between two barriers, only this thread uses the element `lane`.
            unsafe { *partial.wrapping_add(lane) += other };
        }
        thread::sync_threads();
        stride /= 2;
    }
    let block = thread::block_idx_x() as usize;
    if lane == 0 && block < sums_len {
        // SAFETY: the first element was written before the last barrier.
        let sum = unsafe { *partial };
        // SAFETY: `block` is below `sums_len`, and only this block writes the element.
        unsafe { *sums.wrapping_add(block) = sum };
    }
}
