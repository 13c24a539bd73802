//! The methods of a derived bundle, part by part, in safe code.
//!
//! A method of [`Bundle`] is `unsafe` because its caller makes a promise about every part. A value
//! carries the promise to the parts: an [`Attach`], a [`Back`] and so on, each with a safe function
//! `part`. One invariant keeps these functions sound:
//!
//! PART-1. A value of these types is made by the function of the same name below, on a promise
//! about one bundle. It goes to the bundle's [`PartByPart`] or [`PartByPartOf`] only, and `part` is
//! called with parts of that bundle only.
//!
//! The functions below make the values, and are `unsafe`. The traits are `unsafe` too, so that only
//! [`__bundle!`](crate::__bundle) implements them. An implementation by hand would get the promise
//! about one bundle, and could use it for another.

use std::marker::PhantomData;

use crate::memory::bundle::{Bundle, OwnedBy, ToHost};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::tag::{DeviceTag, StreamTag};

/// A value of exactly the type `T`.
///
/// A function that takes `&mut R` also accepts a reference to a type that dereferences to `R`, and
/// then runs a user's `Deref`. A function that takes `Exact<&mut R>` does not, in whichever order
/// rustc infers types. Each `Exact` is made in a statement of its own, so that only the value
/// determines its type.
#[derive(Debug)]
pub struct Exact<T>(pub T);

/// Compiles only if the plain fields, as a tuple, have one type, which is `Copy`, in a bundle and
/// in what is made of it.
#[inline(always)]
pub fn same_type<T: Copy>(_: Exact<T>, _: Exact<T>) {}

/// Compiles only if a bundle has a part. A bundle without parts may be `Copy`, and then its
/// destructor runs wherever the bundle is taken apart.
///
/// # Panics
/// If there is no part.
pub const fn has_parts(parts: &[&str]) {
    assert!(!parts.is_empty(), "a bundle has one buffer at least");
}

/// A bundle's conversions, as [`__bundle!`](crate::__bundle) writes them.
///
/// # Safety
/// PART-1: each method calls `with.part` once for each part of the bundle, with that part, and with
/// nothing else.
pub unsafe trait PartByPart: Bundle {
    /// [`Bundle::attach`].
    fn attach_parts<S: StreamTag>(self, with: Attach<S, Self::Device>) -> Self::On<S>;
    /// [`Bundle::idle_from`].
    fn parts_back<S: StreamTag>(on: Self::On<S>, with: Back<S, Self::Device>) -> Self;
    /// [`Bundle::view`].
    fn view_parts<'v, S: StreamTag>(&mut self, with: BorrowMut<'v, S, Self::Device>) -> Self::View<'v, S>;
    /// [`Bundle::by_ref`].
    fn parts_by_ref<'v, S: StreamTag>(&self, with: Borrow<'v, S, Self::Device>) -> Self::Ref<'v, S>;
    /// [`Bundle::retire`].
    fn retire_parts(self, with: Retire<'_, Self::Device>);
}

/// A bundle of `S`, as [`__bundle!`](crate::__bundle) writes it.
///
/// # Safety
/// PART-1, as for [`PartByPart`].
pub unsafe trait PartByPartOf<S: StreamTag>: OwnedBy<S> {
    /// [`OwnedBy::detach`].
    fn detach_parts(self, with: Detach<S>) -> Self::Idle;
}

/// Declares the types of the promises. Each is invariant in its lifetime and its types: PART-1 is
/// about one lifetime and one stream.
///
/// Counterexample: contravariant in `'v`, a promise to lend for `'v` became a promise to lend for
/// `'static`. A view struct declared a field as `View<'static, S>`, and the view was used after its
/// buffer had been freed.
macro_rules! promises {
    ($($(#[$doc:meta])* $name:ident<$($lifetime:lifetime,)? $($parameter:ident),*>;)*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<$($lifetime,)? $($parameter),*>(
            PhantomData<fn($(&$lifetime (),)? $($parameter),*) -> ($(&$lifetime (),)? $($parameter,)*)>,
        );

        impl<$($lifetime,)? $($parameter),*> Clone for $name<$($lifetime,)? $($parameter),*> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($lifetime,)? $($parameter),*> Copy for $name<$($lifetime,)? $($parameter),*> {}
    )* };
}

promises! {
    /// The promise of [`Bundle::idle_from`], for each part.
    Back<S, D>;
    /// The promise of [`Bundle::view`], for each part.
    BorrowMut<'v, S, D>;
    /// The promise of [`Bundle::by_ref`], for each part.
    Borrow<'v, S, D>;
    /// The promise of [`OwnedBy::detach`], for each part.
    Detach<S>;
}

/// The promise of [`Bundle::attach`], for each part.
#[derive(Debug)]
pub struct Attach<S, D> {
    at: StreamRef,
    of: PhantomData<fn(S, D) -> (S, D)>,
}

impl<S, D> Clone for Attach<S, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, D> Copy for Attach<S, D> {}

/// The promise of [`Bundle::retire`], for each part.
#[derive(Debug)]
pub struct Retire<'f, D> {
    fence: &'f mut Fence,
    of: PhantomData<fn(D) -> D>,
}

impl<S: StreamTag, D: DeviceTag> Attach<S, D> {
    /// Gives a part to the stream.
    #[inline(always)]
    pub fn part<R: Bundle<Device = D>>(self, part: R) -> R::On<S> {
        // SAFETY: PART-1: the promise covers every part, and is of this device.
        unsafe { part.attach(self.at) }
    }
}

impl<S: StreamTag, D: DeviceTag> Back<S, D> {
    /// Takes a part from the stream, pending.
    #[inline(always)]
    pub fn part<R: Bundle<Device = D>>(self, on: R::On<S>) -> R {
        // SAFETY: PART-1: the promise covers every part.
        unsafe { R::idle_from(on) }
    }
}

impl<'v, S: StreamTag, D: DeviceTag> BorrowMut<'v, S, D> {
    /// The view of a part.
    #[inline(always)]
    pub fn part<R: Bundle<Device = D>>(self, part: Exact<&mut R>) -> R::View<'v, S> {
        // SAFETY: PART-1: the promise covers every part.
        unsafe { part.0.view() }
    }
}

impl<'v, S: StreamTag, D: DeviceTag> Borrow<'v, S, D> {
    /// The read-only view of a part.
    #[inline(always)]
    pub fn part<R: Bundle<Device = D>>(self, part: Exact<&R>) -> R::Ref<'v, S> {
        // SAFETY: PART-1: the promise covers every part.
        unsafe { part.0.by_ref() }
    }
}

impl<D: DeviceTag> Retire<'_, D> {
    /// Frees a part once the fence is over.
    #[inline(always)]
    pub fn part<R: Bundle<Device = D>>(&mut self, part: R) {
        // SAFETY: PART-1: the promise covers every part.
        unsafe { part.retire(self.fence) }
    }
}

impl<S: StreamTag> Detach<S> {
    /// Takes a part from the stream, pending.
    #[inline(always)]
    pub fn part<O: OwnedBy<S>>(self, part: O) -> O::Idle {
        // SAFETY: PART-1: the promise covers every part.
        unsafe { part.detach() }
    }
}

/// [`Bundle::attach`], part by part.
///
/// # Safety
/// As [`Bundle::attach`].
#[inline(always)]
pub unsafe fn attach<B: PartByPart, S: StreamTag>(bundle: B, at: StreamRef) -> B::On<S> {
    let of = PhantomData;
    bundle.attach_parts(Attach { at, of })
}

/// [`Bundle::idle_from`], part by part.
///
/// # Safety
/// As [`Bundle::idle_from`].
#[inline(always)]
pub unsafe fn idle_from<B: PartByPart, S: StreamTag>(on: B::On<S>) -> B {
    B::parts_back(on, Back(PhantomData))
}

/// [`Bundle::view`], part by part.
///
/// # Safety
/// As [`Bundle::view`].
pub unsafe fn view<'v, B: PartByPart, S: StreamTag>(bundle: &mut B) -> B::View<'v, S> {
    bundle.view_parts(BorrowMut(PhantomData))
}

/// [`Bundle::by_ref`], part by part.
///
/// # Safety
/// As [`Bundle::by_ref`].
pub unsafe fn by_ref<'v, B: PartByPart, S: StreamTag>(bundle: &B) -> B::Ref<'v, S> {
    bundle.parts_by_ref(Borrow(PhantomData))
}

/// [`Bundle::retire`], part by part.
///
/// # Safety
/// As [`Bundle::retire`].
pub unsafe fn retire<B: PartByPart>(bundle: B, fence: &mut Fence) {
    let of = PhantomData;
    bundle.retire_parts(Retire { fence, of });
}

/// [`OwnedBy::detach`], part by part.
///
/// # Safety
/// As [`OwnedBy::detach`].
#[inline(always)]
pub unsafe fn detach<O: PartByPartOf<S>, S: StreamTag>(on: O) -> O::Idle {
    on.detach_parts(Detach(PhantomData))
}

/// [`Bundle::note_host_access`] of a part.
#[inline(always)]
pub fn note_host_access<R: Bundle>(part: Exact<&R>, passed: ToHost) {
    part.0.note_host_access(passed);
}
