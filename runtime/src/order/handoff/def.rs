//! The private fields of [`Handoff`]. Each function here keeps the invariant, or is `unsafe`.

use std::mem::{self, ManuallyDrop};
use std::ptr;

use crate::memory::{Bundle, OwnedBy};
use crate::order::event_pool::EventLease;
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::StreamTag;

/// A bundle in transit: released by one stream, and not yet acquired by another stream or by the
/// host.
///
/// ```text
///   Buffer<T, Compute> ──release──▶ Handoff<Buffer<T>> ──acquire──▶ Buffer<T, Download>
///                                          │
///                                     synchronize
///                                          ▼
///                                   Buffer<T, Idle>
/// ```
///
/// Its type names no stream, so a handoff can be in a `Vec`, a struct or a channel. The bundle
/// cannot be reached while the handoff is pending: a handoff of one buffer dereferences to a view
/// that has a length, and that neither the host nor a stream may use. Counterexample: if it
/// dereferenced to its buffer, a host read of pinned memory would compile while the download still
/// writes the memory ([H13](crate::hazards#h13)).
///
/// What a handoff waits for is called its *fence*: the events of the last uses of its bundle. The
/// fence is over when all these events are. It is one event after a release, and several after a
/// [join](Self::join).
///
/// Dropping a handoff frees the bundle once the fence is over, on a stream that the device keeps
/// for this, and does not block. Leaking a handoff leaks the memory and does no other harm
/// ([H22](crate::hazards#h22)).
///
/// ```
/// # cuda_rt::streams! { pub Upload; pub Compute; }
/// use cuda_rt::{DeviceBuffer, Handoff, Query};
///
/// /// A field may hold what is in flight: the type names no stream.
/// struct Job {
///     input: Handoff<DeviceBuffer<f32>>,
/// }
///
/// let gpu = cuda_rt::Device::open_or_simulate()?;
/// let (upload, compute) = (gpu.stream::<Upload>()?, gpu.stream::<Compute>()?);
/// let job = Job { input: upload.release(upload.alloc_from_slice(&[1.0, 2.0])?)? };
/// assert_eq!(job.input.len(), 2); // the length is known before the upload is done
///
/// // Another stream takes it over, or the host does: by a wait, or by asking.
/// let input = compute.acquire(job.input)?;
/// let mut pending = compute.release(input)?;
/// let idle = loop {
///     match pending.query()? {
///         Query::Done(idle) => break idle,
///         Query::Pending(handoff) => pending = handoff,
///     }
/// };
///
/// // What is idle waits for nothing.
/// let again = Handoff::ready(idle);
/// assert!(again.is_done()?);
/// assert_eq!(again.synchronize()?.len(), 2);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// HANDOFF-1. Every use of every part, enqueued on any stream, is over or ordered before `fence`.
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

    /// The handoff of a bundle that `S` releases.
    ///
    /// # Safety
    /// The event of `lease` was recorded on the stream `S`, after every use of every part.
    #[inline]
    pub(crate) unsafe fn behind<S: StreamTag>(bundle: impl OwnedBy<S, Idle = R>, lease: EventLease) -> Self {
        // SAFETY: the result goes into a handoff behind an event recorded after every use. Every
        // use was in the order of `S`, because the bundle was owned by `S`.
        let bundle = unsafe { bundle.detach() };
        // SAFETY: HANDOFF-1: every use is before the event of `lease`.
        unsafe { Self::pending(bundle, lease.into()) }
    }

    /// The bundle for the stream `at`.
    ///
    /// # Safety
    /// `at` is the stream `S` on the device of the bundle. A wait for the fence was enqueued there.
    #[inline]
    pub(crate) unsafe fn acquired<S: StreamTag>(self, at: StreamRef) -> R::On<S> {
        let (bundle, fence) = self.into_parts();
        // Its event may be recorded again: the wait is enqueued.
        fence.end();
        // SAFETY: every use is ordered before the fence (HANDOFF-1), and the fence before the
        // present end of the stream.
        unsafe { bundle.take_back().attach(at) }
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
    /// HANDOFF-1 holds for `fence`.
    pub(crate) unsafe fn set_fence(&mut self, fence: Fence) {
        *self.fence = fence;
    }

    /// The pending bundle: its uses may not be over before the fence is.
    #[inline]
    pub(crate) fn pending_ref(&self) -> &R {
        &self.bundle
    }

    /// The bundle in place.
    ///
    /// # Panics
    /// If the fence is not done.
    pub(crate) fn idle_mut(&mut self) -> &mut R {
        assert!(self.fence.is_done(), "only what is idle is lent to the host");
        &mut self.bundle
    }

    /// Takes the bundle and its fence out. No destructor waits for the fence from now on, so the
    /// bundle is leaked until the caller takes it back: its type calls it idle, and it may not be.
    #[inline]
    pub(crate) fn into_parts(self) -> (Leaked<R>, Fence) {
        let mut handoff = ManuallyDrop::new(self);
        // SAFETY: the bundle is taken once: the handoff is neither used nor dropped after this.
        let bundle = unsafe { ManuallyDrop::take(&mut handoff.bundle) };
        // SAFETY: as above.
        let fence = unsafe { ManuallyDrop::take(&mut handoff.fence) };
        (Leaked::new(bundle), fence)
    }
}

impl<R: Bundle> Handoff<R> {
    /// A copy of the bundle, for the host. The fence ends.
    ///
    /// # Safety
    /// Every use of every part is over. The caller forgets the handoff next.
    #[inline(always)]
    pub(crate) unsafe fn read_idle(&mut self) -> R {
        // HANDOFF-1: every use is over, also if this drop of the fence unwinds.
        mem::replace(&mut *self.fence, Fence::DONE).end();
        // SAFETY: the bundle is taken once: the handoff is forgotten by this function's contract.
        unsafe { ptr::read(&*self.bundle) }
    }
}

impl<R: Bundle> Drop for Handoff<R> {
    fn drop(&mut self) {
        // SAFETY: the bundle is taken once: nothing uses the handoff after its drop.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: as above.
        let mut fence = unsafe { ManuallyDrop::take(&mut self.fence) };
        // SAFETY: HANDOFF-1: every use of every part is over once the fence is.
        unsafe { bundle.retire(&mut fence) }
    }
}
