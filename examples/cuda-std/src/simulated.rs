//! What the kernels do, for the simulated device: plain loops, as their source is for a GPU.

use std::ffi::c_void;
use std::{ptr, slice};

use cuda_rt::kernel::LaunchShape;

use crate::BLOCK;

/// # Safety
/// Parameter `index` is there and is a `T`.
unsafe fn argument<T: Copy>(parameters: *const *const c_void, index: usize) -> T {
    // SAFETY: there is a pointer for each parameter.
    let value = unsafe { parameters.wrapping_add(index).read() };
    // SAFETY: it points to a live T.
    unsafe { value.cast::<T>().read() }
}

/// # Safety
/// Parameters `index` and the next are the address and length of memory that nothing writes
/// meanwhile.
unsafe fn input<'a>(parameters: *const *const c_void, index: usize) -> &'a [f32] {
    // SAFETY: the parameter is an address.
    let address = unsafe { argument::<u64>(parameters, index) };
    // SAFETY: the parameter is a length.
    let length = unsafe { argument::<u64>(parameters, index + 1) };
    // SAFETY: the caller's memory; a simulated address is one of the host's, and never null.
    unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address as usize), length as usize) }
}

/// # Safety
/// As [`input`], of memory that nothing else uses.
unsafe fn output<'a>(parameters: *const *const c_void, index: usize) -> &'a mut [f32] {
    // SAFETY: the parameter is an address.
    let address = unsafe { argument::<u64>(parameters, index) };
    // SAFETY: the parameter is a length.
    let length = unsafe { argument::<u64>(parameters, index + 1) };
    // SAFETY: the caller's memory; a simulated address is one of the host's, and never null.
    unsafe {
        slice::from_raw_parts_mut(
            ptr::with_exposed_provenance_mut(address as usize),
            length as usize,
        )
    }
}

/// # Safety
/// As [`Kernel::simulate`](cuda_rt::kernel::Kernel::simulate) for `axpy`.
pub(crate) unsafe fn axpy(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: the first parameter is an f32.
    let a = unsafe { argument::<f32>(parameters, 0) };
    // SAFETY: the next two are an input.
    let x = unsafe { input(parameters, 1) };
    // SAFETY: the last two are the output.
    let y = unsafe { output(parameters, 3) };
    for (y, x) in y.iter_mut().zip(x) {
        *y = a.mul_add(*x, *y);
    }
}

/// # Safety
/// As [`Kernel::simulate`](cuda_rt::kernel::Kernel::simulate) for `block_sums`.
pub(crate) unsafe fn block_sums(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: the first two are the input.
    let x = unsafe { input(parameters, 0) };
    // SAFETY: the last two are the output.
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
