//! The methods of `[T]` on memory that the host may not touch.
//!
//! A stream's memory is no `[T]`, so rustc would only say that it has no such method. With the
//! methods declared here, a program that calls one is told which hazard it meets, and which call
//! mends it. Each method has a bound. In a view for the host ([`OnHost`](crate::OnHost)) pinned
//! memory meets the bound, and the methods do what those of `[T]` do. No place of device memory
//! meets it.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::ops::RangeBounds;
use std::slice::{Chunks, ChunksMut, Iter, IterMut, SliceIndex, Windows};

use super::pinned_slice::PinnedSlice;
use super::slice::DeviceSlice;
use super::{DeviceBuffer, PinnedBuffer, Slot};
use crate::order::handoff::Query;
use crate::tag::{DeviceTag, HostPlace, Idle};

/// A place whose device memory the host can reach. There is none.
///
/// # Safety
/// Never implemented: device memory has no address on the host.
#[diagnostic::on_unimplemented(
    message = "the host cannot read or write device memory",
    label = "device memory: its elements are not in the host's memory",
    note = "H30: copy it: `stream.copy_to_slice(&buffer, &mut slice)?` waits, and `stream.copy_to_host(&buffer, &mut pinned)?` does not; \
            the other way it is `stream.copy_from_slice(&slice, &mut buffer)?` and `stream.copy_to_device(&pinned, &mut buffer)?`",
    note = "on the GPU: `stream.fill(&mut buffer, value)?`, `stream.copy(&from, &mut to)?`, or a kernel"
)]
pub unsafe trait HostReach: Sized {
    /// No value exists.
    #[doc(hidden)]
    const NEVER: Infallible;
}

/// A place at which the host can reach what a slot holds. There is none.
///
/// # Safety
/// Never implemented: work may use what a slot holds.
#[diagnostic::on_unimplemented(
    message = "the host cannot read or write what is in a slot",
    label = "in a slot: nothing says that work on this memory is over",
    note = "H19: wait for it first: `slot.host(|buffer| ..)?` waits and lends the buffer to the closure; \
            a stream uses it in `slot.on(&stream, |buffer| ..)??`"
)]
pub unsafe trait HostReachInSlot: Sized {
    /// No value exists.
    #[doc(hidden)]
    const NEVER: Infallible;
}

/// A place at which the host can reach what an answer of `Handoff::query` holds. There is none.
///
/// # Safety
/// Never implemented: it may be pending.
#[diagnostic::on_unimplemented(
    message = "the host cannot read or write what `query` gave back before looking whether it is pending",
    label = "either the bundle or a handoff that is still pending",
    note = "H13: `match handoff.query().map_err(Error::from)? {{ Query::Done(buffer) => .., Query::Pending(handoff) => .. }}`; \
            `handoff.synchronize()?` waits"
)]
pub unsafe trait HostReachInQuery: Sized {
    /// No value exists.
    #[doc(hidden)]
    const NEVER: Infallible;
}

/// Declares methods of `[T]` in an `impl` block. `$place: $bound` is the bound of each. `$shared`
/// and `$unique` make the elements of `self`.
macro_rules! methods_of_slices {
    ($place:ty: $bound:ident, $shared:expr, $unique:expr) => {
        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn iter(&self) -> Iter<'_, T>
        where
            $place: $bound,
        {
            $shared(self).iter()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn to_vec(&self) -> Vec<T>
        where
            $place: $bound,
            T: Clone,
        {
            $shared(self).to_vec()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn first(&self) -> Option<&T>
        where
            $place: $bound,
        {
            $shared(self).first()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn last(&self) -> Option<&T>
        where
            $place: $bound,
        {
            $shared(self).last()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn get<I: SliceIndex<[T]>>(&self, index: I) -> Option<&I::Output>
        where
            $place: $bound,
        {
            $shared(self).get(index)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn contains(&self, value: &T) -> bool
        where
            $place: $bound,
            T: PartialEq,
        {
            $shared(self).contains(value)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn starts_with(&self, start: &[T]) -> bool
        where
            $place: $bound,
            T: PartialEq,
        {
            $shared(self).starts_with(start)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn ends_with(&self, end: &[T]) -> bool
        where
            $place: $bound,
            T: PartialEq,
        {
            $shared(self).ends_with(end)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn chunks(&self, chunk_len: usize) -> Chunks<'_, T>
        where
            $place: $bound,
        {
            $shared(self).chunks(chunk_len)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn windows(&self, len: usize) -> Windows<'_, T>
        where
            $place: $bound,
        {
            $shared(self).windows(len)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn split_first(&self) -> Option<(&T, &[T])>
        where
            $place: $bound,
        {
            $shared(self).split_first()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn split_last(&self) -> Option<(&T, &[T])>
        where
            $place: $bound,
        {
            $shared(self).split_last()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn binary_search(&self, value: &T) -> Result<usize, usize>
        where
            $place: $bound,
            T: Ord,
        {
            $shared(self).binary_search(value)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn is_sorted(&self) -> bool
        where
            $place: $bound,
            T: PartialOrd,
        {
            $shared(self).is_sorted()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn as_ptr(&self) -> *const T
        where
            $place: $bound,
        {
            $shared(self).as_ptr()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn iter_mut(&mut self) -> IterMut<'_, T>
        where
            $place: $bound,
        {
            $unique(self).iter_mut()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn fill(&mut self, value: T)
        where
            $place: $bound,
            T: Clone,
        {
            $unique(self).fill(value)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn fill_with<F: FnMut() -> T>(&mut self, value: F)
        where
            $place: $bound,
        {
            $unique(self).fill_with(value)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn swap(&mut self, a: usize, b: usize)
        where
            $place: $bound,
        {
            $unique(self).swap(a, b)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn reverse(&mut self)
        where
            $place: $bound,
        {
            $unique(self).reverse()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn first_mut(&mut self) -> Option<&mut T>
        where
            $place: $bound,
        {
            $unique(self).first_mut()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn last_mut(&mut self) -> Option<&mut T>
        where
            $place: $bound,
        {
            $unique(self).last_mut()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn get_mut<I: SliceIndex<[T]>>(&mut self, index: I) -> Option<&mut I::Output>
        where
            $place: $bound,
        {
            $unique(self).get_mut(index)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn chunks_mut(&mut self, chunk_len: usize) -> ChunksMut<'_, T>
        where
            $place: $bound,
        {
            $unique(self).chunks_mut(chunk_len)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn copy_from_slice(&mut self, source: &[T])
        where
            $place: $bound,
            T: Copy,
        {
            $unique(self).copy_from_slice(source)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn clone_from_slice(&mut self, source: &[T])
        where
            $place: $bound,
            T: Clone,
        {
            $unique(self).clone_from_slice(source)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn copy_within<R: RangeBounds<usize>>(&mut self, source: R, to: usize)
        where
            $place: $bound,
            T: Copy,
        {
            $unique(self).copy_within(source, to)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn swap_with_slice(&mut self, other: &mut [T])
        where
            $place: $bound,
        {
            $unique(self).swap_with_slice(other)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn rotate_left(&mut self, mid: usize)
        where
            $place: $bound,
        {
            $unique(self).rotate_left(mid)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn rotate_right(&mut self, mid: usize)
        where
            $place: $bound,
        {
            $unique(self).rotate_right(mid)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn sort(&mut self)
        where
            $place: $bound,
            T: Ord,
        {
            $unique(self).sort()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn sort_unstable(&mut self)
        where
            $place: $bound,
            T: Ord,
        {
            $unique(self).sort_unstable()
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn sort_by<F: FnMut(&T, &T) -> Ordering>(&mut self, compare: F)
        where
            $place: $bound,
        {
            $unique(self).sort_by(compare)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn sort_unstable_by<F: FnMut(&T, &T) -> Ordering>(&mut self, compare: F)
        where
            $place: $bound,
        {
            $unique(self).sort_unstable_by(compare)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn sort_by_key<K: Ord, F: FnMut(&T) -> K>(&mut self, key: F)
        where
            $place: $bound,
        {
            $unique(self).sort_by_key(key)
        }

        /// As of `[T]`, in a view for the host.
        #[track_caller]
        pub fn as_mut_ptr(&mut self) -> *mut T
        where
            $place: $bound,
        {
            $unique(self).as_mut_ptr()
        }
    };
}

impl<T, P> PinnedSlice<T, P> {
    methods_of_slices!(P: HostPlace, Self::as_slice, Self::as_mut_slice);
}

#[doc(hidden)]
impl<T, P> DeviceSlice<T, P> {
    methods_of_slices!(P: HostReach, Self::reached, Self::reached_mut);

    fn reached(&self) -> &[T]
    where
        P: HostReach,
    {
        match P::NEVER {}
    }

    fn reached_mut(&mut self) -> &mut [T]
    where
        P: HostReach,
    {
        match P::NEVER {}
    }
}

macro_rules! held {
    ($holder:ident of $buffer:ident: $bound:ident) => {
        #[doc(hidden)]
        impl<T, D: DeviceTag> $holder<$buffer<T, Idle<D>>> {
            methods_of_slices!(Idle<D>: $bound, Self::reached, Self::reached_mut);

            fn reached(&self) -> &[T]
            where
                Idle<D>: $bound,
            {
                match Idle::<D>::NEVER {}
            }

            fn reached_mut(&mut self) -> &mut [T]
            where
                Idle<D>: $bound,
            {
                match Idle::<D>::NEVER {}
            }
        }
    };
}

// One invocation each, because rustc prints the whole of it below a message.
held!(Slot of PinnedBuffer: HostReachInSlot);
held!(Slot of DeviceBuffer: HostReachInSlot);
held!(Query of PinnedBuffer: HostReachInQuery);
held!(Query of DeviceBuffer: HostReachInQuery);
