//! The kernels for the simulated device, as plain loops; their source is for GPUs only.

use std::ffi::c_void;
use std::{ptr, slice};

use cuda_rt::kernel::LaunchShape;

use crate::BLOCK;

/// # Safety
/// The kernel has a parameter `index`, and it is a `T`.
unsafe fn argument<T: Copy>(parameters: *const *const c_void, index: usize) -> T {
    // SAFETY: `parameters` has a pointer for each parameter, and `index` is one.
    let value = unsafe { parameters.wrapping_add(index).read() };
    // SAFETY: the pointer is to a live `T`, the argument of this launch.
    unsafe { value.cast::<T>().read() }
}

/// # Safety
/// The parameters `index` and `index + 1` are the address and length of memory that nothing writes
/// meanwhile.
unsafe fn input<'a>(parameters: *const *const c_void, index: usize) -> &'a [f32] {
    // SAFETY: the parameter is an address.
    let address = unsafe { argument::<u64>(parameters, index) };
    // SAFETY: the parameter is a length.
    let length = unsafe { argument::<u64>(parameters, index + 1) };
    // SAFETY: by the contract, nothing writes this memory meanwhile. A simulated address is the
    // host's address, and never null.
    unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address as usize), length as usize) }
}

/// # Safety
/// The contract of [`input`], for memory that nothing else uses.
unsafe fn output<'a>(parameters: *const *const c_void, index: usize) -> &'a mut [f32] {
    // SAFETY: the parameter is an address.
    let address = unsafe { argument::<u64>(parameters, index) };
    // SAFETY: the parameter is a length.
    let length = unsafe { argument::<u64>(parameters, index + 1) };
    // SAFETY: by the contract, nothing else uses this memory. A simulated address is the host's
    // address, and never null.
    unsafe {
        slice::from_raw_parts_mut(
            ptr::with_exposed_provenance_mut(address as usize),
            length as usize,
        )
    }
}

/// # Safety
/// The contract of [`Kernel::simulate`](cuda_rt::kernel::Kernel::simulate), for `axpy`.
pub(crate) unsafe fn axpy(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: the first parameter of `axpy` is an `f32`.
    let a = unsafe { argument::<f32>(parameters, 0) };
    // SAFETY: the next two parameters are an input, which the launch borrows.
    let x = unsafe { input(parameters, 1) };
    // SAFETY: the last two parameters are the output, which the launch borrows mutably.
    let y = unsafe { output(parameters, 3) };
    for (y, x) in y.iter_mut().zip(x) {
        *y = a.mul_add(*x, *y);
    }
}

/// # Safety
/// The contract of [`Kernel::simulate`](cuda_rt::kernel::Kernel::simulate), for `block_sums`.
pub(crate) unsafe fn block_sums(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: the first two parameters are the input, which the launch borrows.
    let x = unsafe { input(parameters, 0) };
    // SAFETY: the last two parameters are the output, which the launch borrows mutably.
    let sums = unsafe { output(parameters, 2) };
    for (sum, block) in sums.iter_mut().zip(x.chunks(BLOCK)) {
        let mut partial = [0.0; BLOCK];
        partial[..block.len()].copy_from_slice(block);
        let mut stride = BLOCK / 2;
        while stride > 0 {
            let (kept, other) = partial.split_at_mut(stride);
            kept.iter_mut()
                .zip(&*other)
                .for_each(|(kept, other)| *kept += *other);
            stride /= 2;
        }
        *sum = partial[0];
    }
}
