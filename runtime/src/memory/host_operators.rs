//! `==`, `for` loops, `AsRef` and indices on memory that the host may not touch.
//!
//! Without these implementations rustc would only say that the operator is missing. Each has a
//! bound that nothing meets, so no program can use them. The bound's message names the hazard and
//! the call that mends it.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::Index;

use super::host_methods::HostReach;
use super::pinned_slice::PinnedSlice;
use super::slice::DeviceSlice;
use super::{
    Bundle, Constant, DeviceBuffer, DeviceView, DeviceViewMut, Lease, PinnedBuffer, PinnedView,
    PinnedViewMut, Shared, Slot,
};
use crate::order::future::HandoffFuture;
use crate::order::handoff::{Handoff, Query};
use crate::tag::StreamTag;

/// What the host can compare with memory of the type `Memory`, name an element of it with, or
/// iterate over it as. There is none.
///
/// # Safety
/// Never implemented: the host cannot reach the elements.
#[diagnostic::on_unimplemented(
    message = "the host cannot read `{Memory}`",
    label = "would read elements that a stream may still use, or that the host cannot reach",
    note = "H13/H14/H19: wait first: `let buffer = stream.release(buffer)?.synchronize()?;`, `handoff.synchronize()?`, `shared.host()?`, \
            `slot.host(|buffer| ..)?`, `graph.host(|views| ..)?`; then `*buffer == ..`, `buffer.iter()`",
    note = "H30: device memory must be copied too: `stream.copy_to_slice(&buffer, &mut slice)?`"
)]
pub unsafe trait HostOperand<Memory: ?Sized>: Sized {
    /// What a loop would get. As an associated type it does not exist, so rustc reports only the
    /// loop, and not what its body does with the elements.
    #[doc(hidden)]
    type Item;
    /// No value exists.
    #[doc(hidden)]
    const NEVER: Infallible;
}

/// What stands on the other side of `==`.
pub struct Operand<T: ?Sized>(PhantomData<T>);

/// Gives [`Operand`] as an associated type. While rustc looks for `==`, the type of the right side
/// is unknown, and so is this type. So rustc takes the implementation, and then reports its bound,
/// which is not about the type on the left.
pub trait AsOperand {
    /// The wrapped type.
    type Operand;
}

impl<T: ?Sized> AsOperand for T {
    type Operand = Operand<T>;
}

/// Declares `==` with the memory on the left.
macro_rules! refused {
    ($([$($generics:tt)*] $memory:ty;)*) => { $(
        #[doc(hidden)]
        impl<$($generics)*, Other: ?Sized> PartialEq<Other> for $memory
        where
            <Other as AsOperand>::Operand: HostOperand<$memory>,
        {
            fn eq(&self, _: &Other) -> bool {
                match <<Other as AsOperand>::Operand as HostOperand<$memory>>::NEVER {}
            }
        }
    )* };
}

refused! {
    [T, S: StreamTag] PinnedBuffer<T, S>;
    [T, P] PinnedSlice<T, P>;
    ['v, T, S] PinnedView<'v, T, S>;
    ['v, T, S] PinnedViewMut<'v, T, S>;
    [T, P] DeviceBuffer<T, P>;
    [T, P] DeviceSlice<T, P>;
    ['v, T, S] DeviceView<'v, T, S>;
    ['v, T, S] DeviceViewMut<'v, T, S>;
    [R: Bundle] Handoff<R>;
    [R: Bundle] Query<R>;
    [R: Bundle] Shared<R>;
    [R: Bundle] Slot<R>;
    [R: Bundle, P] Lease<R, P>;
    [R: Bundle, P] Constant<R, P>;
}

/// Declares `==` with the memory on the right.
macro_rules! refused_on_the_right {
    ($([$($generics:tt)*] $memory:ty;)*) => { $(
        refused_on_the_right! { @[$($generics)*, U, const N: usize] [U; N], U: $memory }
        refused_on_the_right! { @[$($generics)*, U] [U], U: $memory }
        refused_on_the_right! { @[$($generics)*, U] Vec<U>, U: $memory }
    )* };
    (@[$($generics:tt)*] $left:ty, $element:ident: $memory:ty) => {
        #[doc(hidden)]
        impl<$($generics)*> PartialEq<$memory> for $left
        where
            $element: HostOperand<$memory>,
        {
            fn eq(&self, _: &$memory) -> bool {
                match <$element as HostOperand<$memory>>::NEVER {}
            }
        }
    };
}

refused_on_the_right! {
    [T, S: StreamTag] PinnedBuffer<T, S>;
    [T, P] PinnedSlice<T, P>;
    [T, P] DeviceBuffer<T, P>;
    [T, P] DeviceSlice<T, P>;
}

/// Declares `for` loops over types, over `&` and over `&mut` of them.
///
/// `IntoIterator` is left to its blanket implementation: with a second one rustc would not look
/// into the bounds of either.
macro_rules! not_iterated {
    ($([$($generics:tt)*] $element:ty: $memory:ty;)*) => { $(
        #[doc(hidden)]
        impl<$($generics)*> Iterator for $memory
        where
            $element: HostOperand<$memory>,
        {
            type Item = <$element as HostOperand<$memory>>::Item;

            fn next(&mut self) -> Option<Self::Item> {
                match <$element>::NEVER {}
            }
        }

        #[doc(hidden)]
        impl<$($generics)*> Iterator for &$memory
        where
            $element: HostOperand<$memory>,
        {
            type Item = <$element as HostOperand<$memory>>::Item;

            fn next(&mut self) -> Option<Self::Item> {
                match <$element>::NEVER {}
            }
        }
    )* };
}

not_iterated! {
    [T, S: StreamTag] T: PinnedBuffer<T, S>;
    [T, P] T: PinnedSlice<T, P>;
    ['v, T, S] T: PinnedView<'v, T, S>;
    ['v, T, S] T: PinnedViewMut<'v, T, S>;
    [T, P] T: DeviceBuffer<T, P>;
    [T, P] T: DeviceSlice<T, P>;
    ['v, T, S] T: DeviceView<'v, T, S>;
    ['v, T, S] T: DeviceViewMut<'v, T, S>;
    [R: Bundle] R: Handoff<R>;
    [R: Bundle] R: Query<R>;
    [R: Bundle] R: Shared<R>;
    [R: Bundle] R: Slot<R>;
    [R: Bundle, P] R: Lease<R, P>;
    [R: Bundle, P] R: Constant<R, P>;
}

#[doc(hidden)]
impl<T, S: StreamTag> AsRef<[T]> for PinnedBuffer<T, S>
where
    T: HostOperand<PinnedBuffer<T, S>>,
{
    fn as_ref(&self) -> &[T] {
        match T::NEVER {}
    }
}

#[doc(hidden)]
impl<T, P: HostReach> AsRef<[T]> for DeviceBuffer<T, P> {
    fn as_ref(&self) -> &[T] {
        match P::NEVER {}
    }
}

/// What a bundle in transit can be indexed with. There is nothing.
///
/// # Safety
/// Never implemented: the host cannot reach the elements.
#[diagnostic::on_unimplemented(
    message = "the host cannot read or write what is pending, nor what is shared or in a slot",
    label = "names an element: streams may still use this memory",
    note = "H13/H14/H30: wait first: `handoff.synchronize()?`, `shared.host()?`, `slot.host(|buffer| ..)?`; device memory is then copied \
            to pinned memory with `copy_to_host`",
    note = "H01: a stream takes it over first: `stream.acquire(handoff)?`, `stream.lease(&shared)?`, `slot.on(&stream, |buffer| ..)??`; \
            a lease and a constant show `&lease.view()`"
)]
pub unsafe trait HostIndex: Sized {
    /// What there would be.
    #[doc(hidden)]
    type Part: ?Sized;
    /// No value exists.
    #[doc(hidden)]
    const NEVER: Infallible;
}

macro_rules! not_indexed {
    ($([$($generics:tt)*] $memory:ty;)*) => { $(
        #[doc(hidden)]
        impl<$($generics)*, I: HostIndex> Index<I> for $memory {
            type Output = I::Part;

            fn index(&self, _: I) -> &I::Part {
                match I::NEVER {}
            }
        }
    )* };
}

not_indexed! {
    [R: Bundle] Handoff<R>;
    [R: Bundle] HandoffFuture<R>;
    [R: Bundle] Query<R>;
    [R: Bundle] Shared<R>;
    [R: Bundle] Slot<R>;
    [R: Bundle, P] Lease<R, P>;
    [R: Bundle, P] Constant<R, P>;
}
