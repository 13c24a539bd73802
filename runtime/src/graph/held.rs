//! [`Held`]: the bundle of a graph, owned by a stream and held in its idle form.

use std::mem::ManuallyDrop;

use crate::memory::{Bundle, ToHost};
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::CallSite;

/// A bundle that a stream owns, held in its idle form. A graph takes views of it; the drop gives it
/// back to the stream.
///
/// # Invariants
/// HELD-1. `bundle` is owned by `S`, which is `stream`: every use is in that stream's order.
pub(super) struct Held<R: Bundle, S: StreamTag> {
    bundle: ManuallyDrop<R>,
    stream: Stream<S>,
}

impl<R: Bundle, S: StreamTag> Held<R, S> {
    /// # Safety
    /// HELD-1 holds for `bundle` and `stream`.
    pub(super) unsafe fn new(bundle: R, stream: &Stream<S>) -> Self {
        Self {
            bundle: ManuallyDrop::new(bundle),
            stream: stream.clone(),
        }
    }

    /// # Safety
    /// The function is called once, and `bundle` is not used again.
    unsafe fn take(&mut self) -> R::On<S> {
        // SAFETY: the bundle is taken once by this function's contract.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: HELD-1: every use is in the order of the stream `S`, so before its present end.
        unsafe { bundle.attach(self.stream.at()) }
    }

    pub(super) fn stream(&self) -> &Stream<S> {
        &self.stream
    }

    /// Views of the bundle for `'v`, for a stream that stands for `S` or is `S`.
    ///
    /// # Safety
    /// As for [`Bundle::view`].
    pub(super) unsafe fn views<'v, P: StreamTag>(&mut self) -> R::View<'v, P> {
        // SAFETY: this function has the contract of [`Bundle::view`].
        unsafe { self.bundle.view() }
    }

    /// Tells a checker that the host may access the bundle's pinned memory from now on, or could
    /// until now.
    pub(super) fn note_host_access(&self, passed: CallSite) {
        self.bundle.note_host_access(ToHost::writes(passed));
    }

    /// The bundle in its idle form. The caller keeps it in the order of the stream.
    pub(super) fn into_bundle(self) -> R {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: this takes the bundle once: `held` is neither used nor dropped after this.
        let bundle = unsafe { ManuallyDrop::take(&mut held.bundle) };
        // SAFETY: as above.
        unsafe { std::ptr::drop_in_place(&mut held.stream) };
        bundle
    }

    /// The bundle, on its stream.
    pub(super) fn into_on(self) -> R::On<S> {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: this takes the bundle once: `held` is neither used nor dropped after this.
        let on = unsafe { held.take() };
        // SAFETY: as above.
        unsafe { std::ptr::drop_in_place(&mut held.stream) };
        on
    }
}

impl<R: Bundle, S: StreamTag> Drop for Held<R, S> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the bundle after this drop. It is freed in its stream's order.
        drop(unsafe { self.take() });
    }
}
