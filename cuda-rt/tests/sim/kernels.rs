//! Kernels written by hand, as `#[kernel]` would write them.

use std::ffi::c_void;

use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};

/// The amount for which [`ADD`] panics.
pub(crate) const TOO_MUCH: u32 = 666;

// SAFETY: the image was written for the kernels below, by hand.
static MODULE: ModuleImage = unsafe { ModuleImage::new("tests", "") };

/// Adds a number to each element; panics if the number is [`TOO_MUCH`].
pub(crate) static ADD: Kernel = elementwise("tests::add", line!(), add);

/// Multiplies each element by 31 and adds a number: unlike [`ADD`], two of them do not commute.
pub(crate) static MIX: Kernel = elementwise("tests::mix", line!(), mix);

const fn elementwise(
    name: &'static str,
    line: u32,
    simulate: unsafe fn(&LaunchShape, *const *const c_void),
) -> Kernel {
    const fn parameter(bytes: usize, align_bytes: usize, kind: ParameterKind) -> Parameter {
        Parameter {
            size_bytes: bytes,
            align_bytes,
            kind,
        }
    }
    const PARAMETERS: &[Parameter] = &[
        parameter(8, 8, ParameterKind::Write { element_bytes: 4 }),
        parameter(8, 8, ParameterKind::Length),
        parameter(4, 4, ParameterKind::Scalar),
        parameter(24, 8, ParameterKind::Extent),
    ];
    Kernel {
        name,
        symbol: c"test",
        file: file!(),
        line,
        module: &MODULE,
        parameters: PARAMETERS,
        layout: &[],
        simulate,
        cache: KernelCache::new(),
    }
}

unsafe fn add(shape: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: this function's contract is the contract of `each`.
    unsafe { each(shape, parameters, |x, amount| x.wrapping_add(amount)) }
}

unsafe fn mix(shape: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: this function's contract is the contract of `each`.
    unsafe {
        each(shape, parameters, |x, amount| {
            x.wrapping_mul(31).wrapping_add(amount)
        })
    }
}

unsafe fn each(shape: &LaunchShape, parameters: *const *const c_void, f: impl Fn(u32, u32) -> u32) {
    // SAFETY: the kernel's parameters are these four, so there are four pointers.
    let [data, len, amount, extent] = unsafe { *parameters.cast::<[*const c_void; 4]>() };
    // SAFETY: the first parameter is an address.
    let data = unsafe { *data.cast::<u64>() };
    // SAFETY: the second is a length.
    let len = unsafe { *len.cast::<u64>() };
    // SAFETY: the third is a u32.
    let amount = unsafe { *amount.cast::<u32>() };
    // SAFETY: the fourth is the extent.
    let extent = unsafe { *extent.cast::<Extent>() };
    assert_eq!(extent, shape.extent);
    assert!(amount != TOO_MUCH, "{amount} is too much");
    let data = std::ptr::with_exposed_provenance_mut::<u32>(data as usize);
    // SAFETY: the simulated device found the range in its memory, and nothing else runs now.
    let data = unsafe { std::slice::from_raw_parts_mut(data, len as usize) };
    for x in &mut data[..extent.x as usize] {
        *x = f(*x, amount);
    }
}

pub(crate) fn extent(threads: u64) -> Extent {
    Extent {
        x: threads,
        y: 1,
        z: 1,
    }
}

pub(crate) fn shape(threads: u64) -> LaunchShape {
    let grid = [threads.div_ceil(256).max(1) as u32, 1, 1];
    LaunchShape {
        grid,
        block: [256, 1, 1],
        shared_bytes: 0,
        extent: extent(threads),
    }
}
