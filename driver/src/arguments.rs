//! The values of a launch's parameters, copied.

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;

use crate::Kernel;

/// Copied parameters of a launch, kept for later.
///
/// # Invariants
/// PACKED-1. `bytes` holds the kernel's parameters one after another. Each stands at the next
/// multiple of its alignment, counted from the first address that is aligned for all. The values
/// may contain padding, so the bytes are never read as a value.
pub struct OwnedArguments {
    kernel: &'static Kernel,
    bytes: Box<[MaybeUninit<u128>]>,
}

impl fmt::Debug for OwnedArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedArguments")
            .field("kernel", &self.kernel.name)
            .finish_non_exhaustive()
    }
}

impl OwnedArguments {
    /// Copies the parameters.
    ///
    /// # Safety
    /// `parameters` has one pointer for each of `kernel.parameters`, to a live value of that size.
    pub unsafe fn new(kernel: &'static Kernel, parameters: &[*const c_void]) -> Self {
        assert_eq!(
            parameters.len(),
            kernel.parameters.len(),
            "one pointer for each parameter"
        );
        let span_bytes = offsets(kernel).last().map_or(0, |(offset, bytes)| offset + bytes);
        let words = (span_bytes + largest_alignment(kernel)).div_ceil(size_of::<u128>());
        let mut packed = Self {
            kernel,
            bytes: Box::new_uninit_slice(words),
        };
        let start = packed.bytes.as_mut_ptr().cast::<u8>();
        let base = start.wrapping_add(start.align_offset(largest_alignment(kernel)));
        for ((offset, bytes), &value) in offsets(kernel).zip(parameters) {
            // SAFETY: PACKED-1: `offset + bytes` is within the span, and the buffer has room for
            // the span after `base`.
            let place = unsafe { base.add(offset) };
            // SAFETY: `new`'s contract: `value` points to a live value of `bytes` bytes; `place`
            // has room for it.
            unsafe { place.copy_from_nonoverlapping(value.cast(), bytes) };
        }
        packed
    }

    /// The kernel that the parameters are for.
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    fn base(&self) -> *const u8 {
        let start = self.bytes.as_ptr().cast::<u8>();
        start.wrapping_add(start.align_offset(largest_alignment(self.kernel)))
    }

    /// A pointer to each value, and its size in bytes.
    pub fn values(&self) -> impl Iterator<Item = (*const c_void, usize)> {
        let base = self.base();
        offsets(self.kernel).map(move |(offset, bytes)| (base.wrapping_add(offset).cast(), bytes))
    }

    /// Whether the values of both have the same bytes. Both are of one kernel.
    ///
    /// # Safety
    /// No value of either has padding.
    pub unsafe fn same_bytes(&self, other: &Self) -> bool {
        self.values().zip(other.values()).all(|((a, bytes), (b, _))| {
            // SAFETY: PACKED-1: `bytes` bytes of a parameter, borrowed from `self`. All are
            // initialised, because by this function's contract no value has padding.
            let a = unsafe { std::slice::from_raw_parts(a.cast::<u8>(), bytes) };
            // SAFETY: as above, for `other`: it is of the same kernel, so the parameter has the
            // same size.
            let b = unsafe { std::slice::from_raw_parts(b.cast::<u8>(), bytes) };
            a == b
        })
    }

    /// A copy with the same values.
    pub fn duplicate(&self) -> Self {
        let values: Vec<*const c_void> = self.values().map(|(value, _)| value).collect();
        // SAFETY: PACKED-1: `values` holds one pointer to the bytes of each parameter.
        unsafe { Self::new(self.kernel, &values) }
    }
}

/// Offset and size of each parameter.
fn offsets(kernel: &'static Kernel) -> impl Iterator<Item = (usize, usize)> {
    kernel.parameters.iter().scan(0usize, |end, parameter| {
        let offset = end.next_multiple_of(parameter.align_bytes);
        *end = offset + parameter.size_bytes;
        Some((offset, parameter.size_bytes))
    })
}

fn largest_alignment(kernel: &'static Kernel) -> usize {
    kernel.parameters.iter().map(|p| p.align_bytes).max().unwrap_or(1)
}
