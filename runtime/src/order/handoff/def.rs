//! The private fields of [`Handoff`]: what is here keeps its invariant, or is `unsafe`.

use std::mem::ManuallyDrop;

use crate::memory::Bundle;
use crate::order::fence::Fence;

/// A bundle in transit: released by one stream, and not yet acquired by another stream or by the
/// host.
///
/// ```text
///   DeviceBuffer<T, Compute> ──release──▶ Handoff<DeviceBuffer<T>> ──acquire──▶ DeviceBuffer<T, Download>
///                                                │
///                                           synchronize
///                                                ▼
///                                        DeviceBuffer<T, Idle>
/// ```
///
/// It names no stream, so it can sit in a `Vec`, a struct or a channel. What is inside cannot be
/// reached while it is pending: that is the point. Counterexample: if it dereferenced to the
/// buffer, a host read of pinned memory would compile while the download still writes it (H13).
///
/// Dropping it frees what is inside once its event is over, on a stream kept for that, without
/// blocking. Leaking it leaks the memory and nothing else (H22).
///
/// # Invariants
/// HANDOFF-1. Every use of every part that is enqueued anywhere is ordered before `fence`, or over.
#[must_use = "dropping a handoff frees what it carries; `acquire` it on a stream, or `synchronize` it"]
pub struct Handoff<R: Bundle> {
    bundle: ManuallyDrop<R>,
    fence: ManuallyDrop<Fence>,
}

impl<R: Bundle> Handoff<R> {
    /// # Safety
    /// HANDOFF-1 holds.
    #[inline]
    pub(crate) unsafe fn pending(bundle: R, fence: Fence) -> Self {
        Self {
            bundle: ManuallyDrop::new(bundle),
            fence: ManuallyDrop::new(fence),
        }
    }

    #[inline]
    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// A second holder of the fence.
    pub(crate) fn share_fence(&mut self) -> Fence {
        self.fence.share()
    }

    /// # Safety
    /// HANDOFF-1 holds of `fence`.
    pub(crate) unsafe fn set_fence(&mut self, fence: Fence) {
        *self.fence = fence;
    }

    /// What it carries, whose uses are ordered before the fence only.
    pub(crate) fn pending_ref(&self) -> &R {
        &self.bundle
    }

    /// The bundle in place, where nothing is pending.
    pub(crate) fn idle_mut(&mut self) -> &mut R {
        assert!(self.fence.is_done(), "only what is idle is lent to the host");
        &mut self.bundle
    }

    /// The bundle and its fence, which no destructor waits for from now on.
    #[inline]
    pub(crate) fn into_parts(self) -> (R, Fence) {
        let mut handoff = ManuallyDrop::new(self);
        // SAFETY: taken once: the handoff is neither used nor dropped after this.
        let bundle = unsafe { ManuallyDrop::take(&mut handoff.bundle) };
        // SAFETY: as above.
        let fence = unsafe { ManuallyDrop::take(&mut handoff.fence) };
        (bundle, fence)
    }
}

impl<R: Bundle> Drop for Handoff<R> {
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: as above.
        let mut fence = unsafe { ManuallyDrop::take(&mut self.fence) };
        // SAFETY: HANDOFF-1: every use of every part is over once the fence is.
        unsafe { bundle.retire(&mut fence) }
    }
}
