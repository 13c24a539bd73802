//! One bundle read by many streams.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::core::DeviceCore;
use crate::error::{During, Result};
use crate::memory::{Bundle, OwnedBy};
use crate::order::fence::Fence;
use crate::order::handoff::Handoff;
use crate::order::last_uses::LastUses;
use crate::order::stream_ref::StreamRef;
use crate::stream::Stream;
use crate::tag::{DeviceTag, Idle, Live, OnDevice, SameAs, StreamTag};

/// A bundle that any number of streams may read, each through a [`Lease`], and none may write.
///
/// Cloning it makes another holder of the same bundle. Counterexample that it exists for: two
/// readers on two streams, and then a writer that waits for the one that came last; the other
/// reader sees half-written data. Here the bundle comes back only through
/// [`reclaim`](Self::reclaim), which waits for all of them (H10).
///
/// Dropping the last holder frees the bundle behind all readers, without blocking.
pub struct Shared<R: Bundle>(Arc<Block<R>>);

/// # Invariants
/// SHARED-1. Writes to the bundle are ordered before `written`; nothing writes it while the block
/// exists.
/// SHARED-2. Every read by a lease that has ended is ordered before one of `readers`, or is over.
/// SHARED-3. A lease that has not ended holds the block.
struct Block<R: Bundle> {
    bundle: ManuallyDrop<R>,
    written: ManuallyDrop<Fence>,
    readers: Mutex<LastUses>,
}

impl<R: Bundle> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Bundle> fmt::Debug for Shared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("holders", &Arc::strong_count(&self.0))
            .finish_non_exhaustive()
    }
}

impl<R: Bundle> Block<R> {
    /// The bundle, and what must be over before it may be written or freed.
    fn take(&mut self) -> (R, Fence) {
        let readers = std::mem::take(self.readers.get_mut().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: called once, by `drop` or by `reclaim`, which forgets the block.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: as above.
        let written = unsafe { ManuallyDrop::take(&mut self.written) };
        // SHARED-1 and SHARED-2: the readers waited for `written`, but there may be none.
        (bundle, Fence::all([written, readers.into_fence()]))
    }
}

impl<R: Bundle> Drop for Block<R> {
    fn drop(&mut self) {
        let (bundle, mut fence) = self.take();
        // SAFETY: SHARED-3: no lease is left, so every use is over once the fence is.
        unsafe { bundle.retire(&mut fence) }
    }
}

impl<R: Bundle> Shared<R> {
    /// The bundle again, for writing, if this is its only holder and no lease is out; waits, where
    /// it is acquired, for every reader.
    ///
    /// # Errors
    /// The shared bundle as it was. A lease leaked with `mem::forget` keeps it for ever, and does
    /// no more (H09, H22).
    pub fn reclaim(self) -> Result<Handoff<R>, Self> {
        let block = Arc::try_unwrap(self.0).map_err(Self)?;
        let (bundle, fence) = ManuallyDrop::new(block).take();
        // SAFETY: HANDOFF-1: SHARED-1 to SHARED-3: writes and the reads of all leases, none of
        // which is left, are ordered before the fence.
        Ok(unsafe { Handoff::pending(bundle, fence) })
    }
}

/// The right to read a shared bundle; `P` says which stream has it, or [`Idle`]. Dropping it ends
/// the read, in the stream's order.
///
/// It is part of bundles as a buffer is: a struct or tuple of buffers and the leases that they are
/// computed from moves to another stream, or into a graph, as a whole, and what is shared stays
/// readable by everyone.
///
/// # Invariants
/// LEASE-1. Writes to the bundle are ordered before the present end of the stream `at`, or over
/// where it is `None`.
/// LEASE-2. Every read under this lease is ordered before the present end of `at`, or over where it
/// is `None`.
/// LEASE-3. While `P` is a stream tag, `at` is that stream.
/// LEASE-4. `P` is a place of the bundle's device.
#[must_use = "dropping a lease ends it at once"]
pub struct Lease<R: Bundle, P = Idle> {
    /// `None` once it has ended.
    block: Option<Arc<Block<R>>>,
    at: Option<StreamRef>,
    core: Arc<DeviceCore>,
    /// LEASE-4 by ON-DEVICE-1.
    place: OnDevice<R::Device, P>,
}

impl<R: Bundle, P> fmt::Debug for Lease<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<R: Bundle, S: StreamTag> Lease<R, S> {
    /// Views of all parts, for reading on `S`. Nothing in them can be written, swapped or kept past
    /// the lease (H08).
    pub fn view(&self) -> R::Ref<'_, S> {
        // SAFETY: LEASE-1 and LEASE-3: writes are ordered before the work of `S` that follows, and
        // nothing writes while the lease is there (SHARED-3); work that uses the view is enqueued
        // while the lease is borrowed, before its end is recorded.
        unsafe { self.bundle().by_ref() }
    }
}

impl<R: Bundle, P> Lease<R, P> {
    fn bundle(&self) -> &R {
        let block = self.block.as_ref();
        &block.expect("a lease that has not ended holds its block").bundle
    }

    /// The same lease, of another place.
    ///
    /// # Safety
    /// LEASE-1 to LEASE-3 hold for `Q` and `at`.
    unsafe fn recast<Q>(mut self, place: OnDevice<R::Device, Q>, at: Option<StreamRef>) -> Lease<R, Q> {
        Lease {
            block: self.block.take(),
            at,
            core: Arc::clone(&self.core),
            place,
        }
    }

    /// Ends the lease; `end` says where its reads do.
    fn end(&mut self, end: impl FnOnce(&mut LastUses, &DeviceCore)) {
        if let Some(block) = self.block.take() {
            // Whole after any panic: each step of `LastUses` is one assignment.
            let mut readers = block.readers.lock().unwrap_or_else(PoisonError::into_inner);
            readers.note(|readers| end(readers, &self.core));
        }
    }
}

impl<R: Bundle, P> Drop for Lease<R, P> {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            // LEASE-2 gives SHARED-2.
            self.end(|readers, core| {
                if at.id.is_adopted() {
                    readers.tidy();
                }
                readers.on(core.events(), at);
            });
        }
    }
}

// SAFETY: one part, which every method converts; `&` gives no way to write.
unsafe impl<R: Bundle, D: DeviceTag> Bundle for Lease<R, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = Lease<R, S>;
    type View<'v, S: StreamTag> = R::Ref<'v, S>;
    type Ref<'v, S: StreamTag> = R::Ref<'v, S>;

    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> Lease<R, S> {
        // SAFETY: the caller's `S` is on the device `D`.
        let place = unsafe { self.place.moved() };
        // SAFETY: writes were ordered before reads under this lease could begin, and the caller has
        // ordered all uses before the present end of `at`, which is `S`.
        unsafe { self.recast(place, Some(at)) }
    }

    unsafe fn idle_from<S: StreamTag>(on: Lease<R, S>) -> Self {
        // SAFETY: the caller's `S` is on the device `D`.
        let place = unsafe { on.place.moved() };
        // SAFETY: the caller does not use or drop it until every use is over, which is when LEASE-1
        // and LEASE-2 hold.
        unsafe { on.recast(place, None) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> R::Ref<'v, S> {
        // SAFETY: the caller orders the views' uses after those before; nothing writes while the
        // lease is there (SHARED-3).
        unsafe { self.bundle().by_ref() }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> R::Ref<'v, S> {
        // SAFETY: as in `view`.
        unsafe { self.bundle().by_ref() }
    }

    unsafe fn retire(mut self, fence: &mut Fence) {
        let fence = fence.share();
        self.end(|readers, _| {
            readers.tidy();
            readers.behind(fence);
        });
    }
}

// SAFETY: one part, held by `S`.
unsafe impl<R: Bundle, S: StreamTag> OwnedBy<S> for Lease<R, S> {
    type Idle = Lease<R, Idle<S::Device>>;

    unsafe fn detach(self) -> Self::Idle {
        let place = self.place.idle();
        // SAFETY: as in `back`.
        unsafe { self.recast(place, None) }
    }
}

impl<S: StreamTag> Stream<S> {
    /// Gives up a bundle for many streams to read (`cuEventRecord`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); the bundle is then dropped in this stream's order.
    pub fn share<R: OwnedBy<S>>(&self, bundle: R) -> Result<Shared<R::Idle>>
    where
        S::Device: Live,
    {
        let written = self.record("Stream::share")?;
        // SAFETY: it goes into a block behind an event recorded after every use (SHARED-1).
        let bundle = ManuallyDrop::new(unsafe { bundle.detach() });
        let written = ManuallyDrop::new(Fence::from(written));
        Ok(Shared(Arc::new(Block {
            bundle,
            written,
            readers: Mutex::default(),
        })))
    }

    /// Lets this stream read a shared bundle; it waits, on the GPU, for what wrote it
    /// (`cuStreamWaitEvent`), and for no other reader. Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn lease<R: Bundle>(&self, shared: &Shared<R>) -> Result<Lease<R, S>>
    where
        R::Device: SameAs<S::Device>,
        S::Device: Live,
    {
        shared.0.written.wait_on(self.at()).during("Stream::lease")?;
        // LEASE-1: the wait is enqueued.
        Ok(Lease {
            block: Some(Arc::clone(&shared.0)),
            at: Some(self.at()),
            core: Arc::clone(self.core()),
            place: OnDevice::new(),
        })
    }
}
