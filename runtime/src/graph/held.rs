//! The bundle of a graph: owned by a stream, held in its idle form.

use std::mem::ManuallyDrop;

use crate::memory::Bundle;
use crate::stream::Stream;
use crate::tag::StreamTag;

/// A bundle that a stream owns, in its idle form, of which a graph takes views; given back to the
/// stream on drop.
///
/// # Invariants
/// HELD-1. `bundle` is owned by `S`, which is `stream`: every use is in that stream's order.
pub(super) struct Held<R: Bundle, S: StreamTag> {
    bundle: ManuallyDrop<R>,
    stream: Stream<S>,
}

impl<R: Bundle, S: StreamTag> Held<R, S> {
    /// # Safety
    /// HELD-1 holds of `bundle` and `stream`.
    pub(super) unsafe fn new(bundle: R, stream: &Stream<S>) -> Self {
        Self {
            bundle: ManuallyDrop::new(bundle),
            stream: stream.clone(),
        }
    }

    /// # Safety
    /// Called once, and `bundle` is not used again.
    unsafe fn take(&mut self) -> R::On<S> {
        // SAFETY: the caller's.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: HELD-1.
        unsafe { bundle.attach(self.stream.at()) }
    }

    pub(super) fn stream(&self) -> &Stream<S> {
        &self.stream
    }

    /// Views of the bundle for `'v`, for a stream that stands for `S` or is `S`.
    ///
    /// # Safety
    /// As [`Bundle::view`].
    pub(super) unsafe fn views<'v, P: StreamTag>(&mut self) -> R::View<'v, P> {
        // SAFETY: this function's own contract.
        unsafe { self.bundle.view() }
    }

    /// The bundle, on its stream.
    pub(super) fn into_on(self) -> R::On<S> {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: not used or dropped after this.
        let on = unsafe { held.take() };
        // SAFETY: as above.
        unsafe { std::ptr::drop_in_place(&mut held.stream) };
        on
    }
}

impl<R: Bundle, S: StreamTag> Drop for Held<R, S> {
    fn drop(&mut self) {
        // SAFETY: this is the drop. The bundle is freed in its stream's order.
        drop(unsafe { self.take() });
    }
}
