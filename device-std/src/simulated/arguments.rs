//! Reads launch parameters in the form that `cuLaunchKernel` takes: one pointer for each value.

use core::ffi::c_void;

use super::super::rt::SharedArgument;
use crate::element::{Element, Scalar};
use crate::extent::Extent;

/// # Safety
/// `parameters` has a pointer at `at`, to a value of type `T`.
#[inline]
unsafe fn value<T: Copy>(parameters: *const *const c_void, at: usize) -> T {
    // SAFETY: the caller says that `parameters` has a pointer at `at`.
    let slot = unsafe { parameters.add(at) };
    // SAFETY: the caller says that `parameters` has a pointer at `at`.
    let value = unsafe { *slot };
    // SAFETY: the caller says that the pointer leads to a value of type `T`.
    unsafe { *value.cast::<T>() }
}

/// The scalar at `at`.
///
/// # Safety
/// `parameters` has a pointer at `at`, to a value of type `T`.
#[inline]
pub unsafe fn scalar<T: Scalar>(parameters: *const *const c_void, at: usize) -> T {
    // SAFETY: the caller says that `parameters` has a pointer at `at`, to a `T`.
    unsafe { value(parameters, at) }
}

/// One run of a kernel. Its owner may hand out the positions of its threads and blocks, so its
/// constructor is `unsafe`.
#[derive(Debug)]
pub struct SimulatedLaunch {
    pub(super) extent: Extent,
    pub(super) grid: [u32; 3],
}

impl SimulatedLaunch {
    /// # Safety
    /// Only the kernel of this launch gets the positions, and each position once.
    #[inline]
    pub(crate) unsafe fn new(extent: Extent, grid: [u32; 3]) -> Self {
        Self { extent, grid }
    }

    /// The number of threads that enter the kernel, (x, y, z).
    #[inline]
    pub fn extent(&self) -> Extent {
        self.extent
    }
}

/// The launch whose extent is at `at`.
///
/// # Safety
/// `parameters` has a pointer at `at`, to an [`Extent`]. Only the kernel of this launch gets the
/// positions, and each position once.
#[inline]
pub unsafe fn launch(parameters: *const *const c_void, at: usize, grid: [u32; 3]) -> SimulatedLaunch {
    // SAFETY: the caller says that `parameters` has a pointer at `at`, to an `Extent`.
    let extent = unsafe { value(parameters, at) };
    // SAFETY: the caller gives each position once, to the kernel of this launch.
    unsafe { SimulatedLaunch::new(extent, grid) }
}

/// The input buffer whose address is at `at`, and whose length in elements is at `at + 1`. The
/// address of an empty buffer is not used.
///
/// # Safety
/// `parameters` has pointers at `at` and `at + 1`, to a `u64` each. The memory is valid and not
/// written for `'a`.
#[inline]
pub unsafe fn slice<'a, T: Element>(parameters: *const *const c_void, at: usize) -> &'a [T] {
    // SAFETY: the caller says that `parameters` has pointers at `at` and `at + 1`, to a `u64` each.
    let (ptr, len) = unsafe { output::<T>(parameters, at) };
    // SAFETY: `output` checked the alignment, and the caller says that the memory is valid and not
    // written for `'a`.
    unsafe { core::slice::from_raw_parts(ptr, len) }
}

/// The output buffer whose address is at `at`, and whose length in elements is at `at + 1`. The
/// address of an empty buffer is not used.
///
/// # Safety
/// `parameters` has pointers at `at` and `at + 1`, to a `u64` each.
#[inline]
pub unsafe fn output<T: Element>(parameters: *const *const c_void, at: usize) -> (*mut T, usize) {
    // SAFETY: the caller says that `parameters` has a pointer at `at`, to a `u64`.
    let address: u64 = unsafe { value(parameters, at) };
    // SAFETY: the caller says that `parameters` has a pointer at `at + 1`, to a `u64`.
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

/// Shared memory of a simulated block. Blocks run one after the other, and use the same memory.
#[derive(Debug)]
pub struct SharedMemory(Vec<u128>);

impl SharedMemory {
    /// Allocates `bytes` bytes, aligned to 16.
    pub fn new(bytes: usize) -> Self {
        Self(vec![0; bytes.div_ceil(16)])
    }

    /// The start of the memory, for [`argument`](Self::argument).
    pub fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// The argument that starts at byte `offset`.
    ///
    /// # Safety
    /// `start` is the [`start`](Self::start) of a living `SharedMemory` of at least `offset +
    /// S::BYTES` bytes. `offset` is a multiple of 16, and the range has no other user.
    #[inline(always)]
    pub unsafe fn argument<S: SharedArgument>(start: *mut u8, offset: usize) -> S {
        // SAFETY: the caller says that the memory has `offset + S::BYTES` bytes.
        let ptr = unsafe { start.add(offset) };
        // SAFETY: the caller says that the range has `S::BYTES` bytes, is aligned to 16, and has no
        // other user.
        unsafe { S::new(ptr) }
    }
}
