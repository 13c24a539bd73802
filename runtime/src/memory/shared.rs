//! [`Shared`] and [`Lease`]: one bundle that many streams read.

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

/// A bundle that any number of streams may read, each through a [`Lease`], and that no stream may
/// write.
///
/// A clone is another holder of the same bundle. Counterexample: two streams read, and then a
/// writer waits for the later reader only. The other reader sees half-written data. A shared bundle
/// can be written again only after [`reclaim`](Self::reclaim), which waits for all readers (H10).
///
/// Dropping the last holder frees the bundle behind all readers, without blocking.
pub struct Shared<R: Bundle>(Arc<Block<R>>);

/// # Invariants
/// SHARED-1. Writes to the bundle are ordered before `written`; nothing writes it while the block
/// exists.
/// SHARED-2. Every read by an ended lease is over, or ordered before an end in `readers`.
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
    /// Takes the bundle out, with the fence that must be over before the bundle may be written or
    /// freed.
    fn take(&mut self) -> (R, Fence) {
        let readers = std::mem::take(self.readers.get_mut().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: `take` is called once: by `drop`, or by `reclaim`, which never drops the block.
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
        // SAFETY: SHARED-3: no lease is left. By SHARED-1 and SHARED-2 every use is over once the
        // fence is.
        unsafe { bundle.retire(&mut fence) }
    }
}

impl<R: Bundle> Shared<R> {
    /// Takes the bundle back for writing, if this is its only holder and no lease exists. The
    /// stream that acquires the bundle waits for every reader. Does not block.
    ///
    /// # Errors
    /// The shared bundle, unchanged. A lease leaked with `mem::forget` keeps the bundle shared for
    /// ever, and does no other harm (H09, H22).
    pub fn reclaim(self) -> Result<Handoff<R>, Self> {
        let block = Arc::try_unwrap(self.0).map_err(Self)?;
        let (bundle, fence) = ManuallyDrop::new(block).take();
        // SAFETY: HANDOFF-1, by SHARED-1 to SHARED-3: no lease is left, and all writes and reads
        // are ordered before the fence.
        Ok(unsafe { Handoff::pending(bundle, fence) })
    }
}

/// The right to read a shared bundle; `P` says which stream has it, or [`Idle`]. Dropping a lease
/// ends the read, in the stream's order.
///
/// A lease can be part of a bundle, like a buffer. A struct or tuple may hold buffers and the
/// leases that they are computed from. It moves to another stream, or into a graph, as a whole;
/// other streams can still read the shared bundle.
///
/// # Invariants
/// LEASE-1. Writes to the bundle are ordered before the present end of the stream `at`. If `at` is
/// `None`, they are over.
/// LEASE-2. Every read under this lease is ordered before the present end of `at`. If `at` is
/// `None`, it is over.
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
    /// Views of all parts, which `S` may read. No view can be written, swapped or kept past the
    /// lease (H08).
    pub fn view(&self) -> R::Ref<'_, S> {
        // SAFETY: LEASE-1 and LEASE-3: writes are ordered before later work of `S`. Nothing writes
        // while the lease exists (SHARED-1, SHARED-3). Work that uses the view is enqueued while
        // the lease is borrowed, before the lease's end is recorded.
        unsafe { self.bundle().by_ref() }
    }
}

impl<R: Bundle, P> Lease<R, P> {
    fn bundle(&self) -> &R {
        let block = self.block.as_ref();
        &block.expect("a lease that has not ended holds its block").bundle
    }

    /// The same lease in another place.
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

    /// Ends the lease; `end` notes where its reads end.
    fn end(&mut self, end: impl FnOnce(&mut LastUses, &DeviceCore)) {
        if let Some(block) = self.block.take() {
            // The value is consistent after any panic: each step of `LastUses` is one assignment.
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

// SAFETY: there is one part, which every method converts. `&` gives no way to write it.
unsafe impl<R: Bundle, D: DeviceTag> Bundle for Lease<R, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = Lease<R, S>;
    type View<'v, S: StreamTag> = R::Ref<'v, S>;
    type Ref<'v, S: StreamTag> = R::Ref<'v, S>;

    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> Lease<R, S> {
        // SAFETY: by this function's contract `S` is on the device `D`.
        let place = unsafe { self.place.moved() };
        // SAFETY: LEASE-1 to LEASE-3: by the contract of `attach` all uses are ordered before the
        // present end of `at`, which is the stream `S`. The writes come before them.
        unsafe { self.recast(place, Some(at)) }
    }

    unsafe fn idle_from<S: StreamTag>(on: Lease<R, S>) -> Self {
        // SAFETY: by this function's contract `S` is on the device `D`.
        let place = unsafe { on.place.moved() };
        // SAFETY: LEASE-1 and LEASE-2 hold once every use is over. By the contract of `idle_from`
        // the lease is neither used nor dropped earlier. LEASE-3 demands nothing of `Idle`.
        unsafe { on.recast(place, None) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> R::Ref<'v, S> {
        // SAFETY: by the contract of `view` the uses of the view come after all earlier uses.
        // Nothing writes while the lease exists (SHARED-1, SHARED-3).
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

// SAFETY: there is one part, and `S` holds it.
unsafe impl<R: Bundle, S: StreamTag> OwnedBy<S> for Lease<R, S> {
    type Idle = Lease<R, Idle<S::Device>>;

    unsafe fn detach(self) -> Self::Idle {
        let place = self.place.idle();
        // SAFETY: as in `idle_from`: LEASE-1 and LEASE-2 hold once every use is over, and by the
        // contract of `detach` the lease is neither used nor dropped earlier.
        unsafe { self.recast(place, None) }
    }
}

impl<S: StreamTag> Stream<S> {
    /// Gives up a bundle, so that many streams can read it (`cuEventRecord`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); the bundle is then dropped in this stream's order.
    pub fn share<R: OwnedBy<S>>(&self, bundle: R) -> Result<Shared<R::Idle>>
    where
        S::Device: Live,
    {
        let written = self.record("Stream::share")?;
        // SAFETY: the bundle goes into a block behind an event recorded after every use (SHARED-1).
        let bundle = ManuallyDrop::new(unsafe { bundle.detach() });
        let written = ManuallyDrop::new(Fence::from(written));
        Ok(Shared(Arc::new(Block {
            bundle,
            written,
            readers: Mutex::default(),
        })))
    }

    /// Lets this stream read a shared bundle. The stream waits, on the GPU, for the writer
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
