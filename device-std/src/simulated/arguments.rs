//! Launch parameters as `cuLaunchKernel` takes them: one pointer to each value.

use core::ffi::c_void;

use super::super::rt::SharedArgument;
use crate::element::{Element, Scalar};
use crate::extent::Extent;

/// # Safety
/// `parameters` has a pointer at `at`, to a value of type `T`.
#[inline]
unsafe fn value<T: Copy>(parameters: *const *const c_void, at: usize) -> T {
    // SAFETY: passed on to the caller.
    let slot = unsafe { parameters.add(at) };
    // SAFETY: passed on to the caller.
    let value = unsafe { *slot };
    // SAFETY: passed on to the caller.
    unsafe { *value.cast::<T>() }
}

/// The scalar at `at`.
///
/// # Safety
/// `parameters` has a pointer at `at`, to a value of type `T`.
#[inline]
pub unsafe fn scalar<T: Scalar>(parameters: *const *const c_void, at: usize) -> T {
    // SAFETY: passed on to the caller.
    unsafe { value(parameters, at) }
}

/// One run of a kernel: whoever has it may hand out the positions of its threads and blocks, so
/// making one is `unsafe`.
#[derive(Debug)]
pub struct SimulatedLaunch {
    pub(super) extent: Extent,
    pub(super) grid: [u32; 3],
}

impl SimulatedLaunch {
    /// # Safety
    /// The positions it hands out go to the one kernel that this is a launch of, once.
    #[inline]
    pub(crate) unsafe fn new(extent: Extent, grid: [u32; 3]) -> Self {
        Self { extent, grid }
    }

    /// The threads that enter the kernel.
    #[inline]
    pub fn extent(&self) -> Extent {
        self.extent
    }
}

/// The launch whose extent is at `at`.
///
/// # Safety
/// `parameters` has a pointer at `at`, to an [`Extent`], and the positions go to the one kernel
/// that this is a launch of, once.
#[inline]
pub unsafe fn launch(parameters: *const *const c_void, at: usize, grid: [u32; 3]) -> SimulatedLaunch {
    // SAFETY: passed on to the caller.
    let extent = unsafe { value(parameters, at) };
    // SAFETY: passed on to the caller.
    unsafe { SimulatedLaunch::new(extent, grid) }
}

/// The buffer whose address is at `at` and whose length, in elements, at `at + 1`. Its address is
/// never used where it is empty.
///
/// # Safety
/// As [`scalar`], twice; and the memory is valid and not written for `'a`.
#[inline]
pub unsafe fn slice<'a, T: Element>(parameters: *const *const c_void, at: usize) -> &'a [T] {
    // SAFETY: passed on to the caller.
    let (ptr, len) = unsafe { output::<T>(parameters, at) };
    // SAFETY: aligned, as `output` made sure; the rest is passed on to the caller.
    unsafe { core::slice::from_raw_parts(ptr, len) }
}

/// As [`slice`], for a buffer that is written.
///
/// # Safety
/// As [`scalar`], twice.
#[inline]
pub unsafe fn output<T: Element>(parameters: *const *const c_void, at: usize) -> (*mut T, usize) {
    // SAFETY: passed on to the caller.
    let address: u64 = unsafe { value(parameters, at) };
    // SAFETY: passed on to the caller.
    let len: u64 = unsafe { value(parameters, at + 1) };
    if len == 0 {
        return (core::ptr::dangling_mut(), 0);
    }
    let ptr = core::ptr::with_exposed_provenance_mut::<T>(address as usize);
    assert!(
        ptr.is_aligned() && !ptr.is_null(),
        "a simulated device address is misaligned for its elements"
    );
    (ptr, len as usize)
}

/// A block's shared memory. Blocks run one after the other, and take turns.
#[derive(Debug)]
pub struct SharedMemory(Vec<u128>);

impl SharedMemory {
    /// Memory of this many bytes, aligned to 16.
    pub fn new(bytes: usize) -> Self {
        Self(vec![0; bytes.div_ceil(16)])
    }

    /// Where the memory starts, for [`argument`](Self::argument).
    pub fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// The argument that lies `offset` bytes in.
    ///
    /// # Safety
    /// `start` is that of a living `SharedMemory` of at least `offset + S::BYTES` bytes, `offset`
    /// is a multiple of 16, and nothing else uses that range.
    #[inline(always)]
    pub unsafe fn argument<S: SharedArgument>(start: *mut u8, offset: usize) -> S {
        // SAFETY: passed on to the caller.
        let ptr = unsafe { start.add(offset) };
        // SAFETY: passed on to the caller.
        unsafe { S::new(ptr) }
    }
}
