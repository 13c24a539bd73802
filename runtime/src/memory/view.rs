//! Borrowed views of a bundle's parts. A view owns nothing, so nothing can be moved out of the
//! bundle through it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::pinned_slice::PinnedSlice;
use super::slice::DeviceSlice;
use cuda_rt_driver::DeviceAddress;

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident => $target:ident, $element:ident: $borrow:ty $(, $mutable:ident)?;)*) => { $(
        $(#[$doc])*
        //
        // # Invariants
        // VIEW-1. `address` and `len` satisfy the slice's invariants for a reference that lives
        // for `'v`.
        pub struct $name<'v, $element, S> {
            address: DeviceAddress,
            len: usize,
            marker: PhantomData<($borrow, fn(S) -> S)>,
        }

        impl<T, S> fmt::Debug for $name<'_, T, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x}, {} elements)"), self.address.0, self.len)
            }
        }

        impl<T, S> $name<'_, T, S> {
            /// # Safety
            /// VIEW-1.
            pub(super) unsafe fn new(address: DeviceAddress, len: usize) -> Self {
                Self { address, len, marker: PhantomData }
            }
        }

        impl<'v, T, S> $name<'v, T, S> {
            /// The slice, for as long as the view could live.
            #[allow(dead_code)] // only views for reading are turned into slices
            pub(super) fn into_slice(self) -> &'v $target<T, S> {
                // SAFETY: VIEW-1 for `'v`. The view is given up, so nothing writes through it.
                unsafe { $target::from_raw(self.address, self.len) }
            }
        }

        impl<T, S> Deref for $name<'_, T, S> {
            type Target = $target<T, S>;

            #[inline]
            fn deref(&self) -> &$target<T, S> {
                // SAFETY: VIEW-1.
                unsafe { $target::from_raw(self.address, self.len) }
            }
        }

        $(impl<T, S> DerefMut for $name<'_, T, S> {
            #[inline]
            fn deref_mut(&mut self) -> &$mutable $target<T, S> {
                // SAFETY: VIEW-1; the view is unique for `'v`, and borrowed uniquely here.
                unsafe { $target::from_raw_mut(self.address, self.len) }
            }
        })?
    )* };
}

// A view for writing is invariant in `T`, like `&mut [T]`: the owner reads the written elements
// with its own declared type.
views! {
    /// Device memory that stream `S` may read, for `'v`.
    DeviceView => DeviceSlice, T: (&'v (), T);
    /// Device memory that stream `S` may read and write, for `'v`.
    DeviceViewMut => DeviceSlice, T: (&'v mut (), T, fn(T) -> T), mut;
    /// Pinned memory that stream `S` may read, for `'v`.
    PinnedView => PinnedSlice, T: (&'v (), T);
    /// Pinned memory that stream `S` may read and write, for `'v`.
    PinnedViewMut => PinnedSlice, T: (&'v mut (), T, fn(T) -> T), mut;
}
