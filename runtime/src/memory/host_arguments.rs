//! [`HostArguments`]: the pinned memory that a host function gets.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::Element;
use super::pinned::PinnedBuffer;
use super::pinned_slice::PinnedSlice;
use super::view::{PinnedView, PinnedViewMut};
use crate::tag::{ReadBy, WriteBy};
use cuda_rt_driver::{DeviceAddress, ForeignUse};

/// Pinned memory that stream `S` may use, as the argument of a
/// [host function](crate::Stream::host_fn):
///
/// | argument | the closure gets |
/// |---|---|
/// | `()` | `()` |
/// | `&` of a [`PinnedBuffer`], [`PinnedSlice`] or view | `&[T]` |
/// | `&mut` of one of these | `&mut [T]` |
/// | a tuple of up to four arguments | the tuple of what it gets for each |
///
/// # Safety
/// The memory is of the place `S`.
#[diagnostic::on_unimplemented(
    message = "a host function cannot be given `{Self}`",
    label = "neither `&` nor `&mut` of pinned memory",
    note = "H30: a host function gets `&` or `&mut` pinned memory that its stream owns, a tuple of these, or `()`; all else belongs to the closure"
)]
pub unsafe trait HostArguments<S>: HostMemory {}

/// Pinned memory as the host gets it, whoever owns it.
///
/// # Safety
/// `host` gives memory that `Self` borrows, uniquely where it gives `&mut`. `raw` adds all of it to
/// `uses`.
#[diagnostic::on_unimplemented(
    message = "a host function cannot be given `{Self}`",
    label = "neither `&` nor `&mut` of pinned memory",
    note = "H30: a host function gets `&` or `&mut` pinned memory that its stream owns, a tuple of these, or `()`; all else belongs to the closure"
)]
pub unsafe trait HostMemory: Sized {
    /// What the closure gets, for one call.
    type Host<'h>;

    /// Addresses and lengths.
    #[doc(hidden)]
    type Raw: Send + 'static;

    /// Adds the memory to `uses`.
    #[doc(hidden)]
    fn raw(self, uses: &mut Vec<ForeignUse>) -> Self::Raw;

    /// The memory, for one call of the closure.
    ///
    /// # Safety
    /// For `'h`, the memory is live, and no other access conflicts.
    #[doc(hidden)]
    unsafe fn host<'h>(raw: &Self::Raw) -> Self::Host<'h>;
}

// SAFETY: there is no memory.
unsafe impl HostMemory for () {
    type Host<'h> = ();
    type Raw = ();

    fn raw(self, _uses: &mut Vec<ForeignUse>) {}

    unsafe fn host<'h>(_raw: &()) -> Self::Host<'h> {}
}

// SAFETY: there is no memory.
unsafe impl<S> HostArguments<S> for () {}

/// The address, with exposed provenance, and the length of pinned memory.
#[doc(hidden)]
#[derive(Debug)]
pub struct RawPinned {
    address: usize,
    len: usize,
}

impl RawPinned {
    fn new<T>(start: NonNull<c_void>, len: usize, writes: bool, uses: &mut Vec<ForeignUse>) -> Self {
        let address = start.as_ptr().expose_provenance();
        // Cannot overflow: it was allocated.
        let bytes = len * size_of::<T>();
        if bytes > 0 {
            uses.push(ForeignUse {
                address: DeviceAddress(address as u64),
                bytes,
                writes,
            });
        }
        Self { address, len }
    }

    /// The first element.
    fn start<T>(&self) -> *mut T {
        // A slice without bytes may have an address that is not aligned.
        if self.len * size_of::<T>() == 0 {
            return NonNull::dangling().as_ptr();
        }
        std::ptr::with_exposed_provenance_mut(self.address)
    }
}

/// Implements [`HostMemory`] for references to pinned memory of the place `P`.
macro_rules! references {
    ($slice:ident of $life:lifetime by $from_raw:ident, $bound:ident, $writes:literal: $($argument:ty),*) => { $(
        // SAFETY: the argument borrows the memory as the slice does.
        unsafe impl<T: Element + $bound, P> HostMemory for $argument {
            type Host<$life> = $slice!($life T);
            type Raw = RawPinned;

            fn raw(self, uses: &mut Vec<ForeignUse>) -> RawPinned {
                RawPinned::new::<T>(self.start(), self.len(), $writes, uses)
            }

            unsafe fn host<$life>(raw: &RawPinned) -> Self::Host<$life> {
                // SAFETY: PINNED-1, PINNED-SLICE-1: the address is of `len` initialised elements,
                // aligned to them. By this function's contract they are live for `'h`, and no
                // other access conflicts.
                unsafe { std::slice::$from_raw(raw.start::<T>(), raw.len) }
            }
        }
    )* };
}

macro_rules! shared {
    ($life:lifetime $element:ident) => {
        &$life[$element]
    };
}

macro_rules! unique {
    ($life:lifetime $element:ident) => { &$life mut [$element] };
}

references!(shared of 'h by from_raw_parts, Sync, false:
    &PinnedSlice<T, P>, &PinnedBuffer<T, P>, &PinnedView<'_, T, P>, &PinnedViewMut<'_, T, P>);
references!(unique of 'h by from_raw_parts_mut, Send, true:
    &mut PinnedSlice<T, P>, &mut PinnedBuffer<T, P>, &mut PinnedViewMut<'_, T, P>);

// Each written out: messages of the compiler show these lines.
// SAFETY: the place is `P`, which `S` may read.
unsafe impl<S, T: Element + Sync, P: ReadBy<S>> HostArguments<S> for &PinnedSlice<T, P> {}
// SAFETY: as above.
unsafe impl<S, T: Element + Sync, P: ReadBy<S>> HostArguments<S> for &PinnedBuffer<T, P> {}
// SAFETY: as above.
unsafe impl<S, T: Element + Sync, P: ReadBy<S>> HostArguments<S> for &PinnedView<'_, T, P> {}
// SAFETY: as above.
unsafe impl<S, T: Element + Sync, P: ReadBy<S>> HostArguments<S> for &PinnedViewMut<'_, T, P> {}
// SAFETY: the place is `P`, which `S` may write.
unsafe impl<S, T: Element + Send, P: WriteBy<S>> HostArguments<S> for &mut PinnedSlice<T, P> {}
// SAFETY: as above.
unsafe impl<S, T: Element + Send, P: WriteBy<S>> HostArguments<S> for &mut PinnedBuffer<T, P> {}
// SAFETY: as above.
unsafe impl<S, T: Element + Send, P: WriteBy<S>> HostArguments<S> for &mut PinnedViewMut<'_, T, P> {}

macro_rules! tuples {
    ($(($($argument:ident $index:tt),*);)*) => { $(
        // SAFETY: each argument keeps the promise for its own memory, and they were borrowed
        // together.
        unsafe impl<$($argument: HostMemory),*> HostMemory for ($($argument,)*) {
            type Host<'h> = ($($argument::Host<'h>,)*);
            type Raw = ($($argument::Raw,)*);

            fn raw(self, uses: &mut Vec<ForeignUse>) -> Self::Raw {
                ($(self.$index.raw(uses),)*)
            }

            unsafe fn host<'h>(raw: &Self::Raw) -> Self::Host<'h> {
                ($(
                    // SAFETY: the same contract, for this argument's memory.
                    unsafe { $argument::host(&raw.$index) },
                )*)
            }
        }

        // SAFETY: each argument's memory is of the place `S`.
        unsafe impl<S, $($argument: HostArguments<S>),*> HostArguments<S> for ($($argument,)*) {}
    )* };
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
}
