//! One bundle read by many streams.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::DriverError;
use crate::error::{During, Result};
use crate::fence::{EventLease, Fence};
use crate::handoff::Handoff;
use crate::memory::{OwnedBy, Resource};
use crate::place::{Live, SameAs, StreamTag};
use crate::stream::Stream;

/// A bundle that any number of streams may read, each through a [`Lease`], and none may write.
///
/// Cloning it makes another holder of the same bundle. Counterexample that it exists for: two readers on two streams,
/// and then a writer that waits for the one that came last; the other reader sees half-written data. Here the bundle
/// comes back only through [`reclaim`](Self::reclaim), which waits for all of them (H10).
///
/// Dropping the last holder frees the bundle behind all readers, without blocking.
pub struct Shared<R: Resource>(Arc<Block<R>>);

/// # Invariants
/// R1. Writes to the bundle are ordered before `written`; nothing writes it while the block exists.
/// R2. Every read by a lease that has ended is ordered before one of `readers`, or `failure` is set.
/// R3. A lease that has not ended holds the block.
struct Block<R: Resource> {
    bundle: ManuallyDrop<R>,
    written: ManuallyDrop<Fence>,
    ended: Mutex<Ended>,
}

// SAFETY: `&Block` gives read-only views of the bundle (`Resource::by_ref`), never the bundle itself.
unsafe impl<R: Resource + Send> Sync for Block<R> {}

#[derive(Default)]
struct Ended {
    /// The last event of each stream that has read.
    readers: Vec<EventLease>,
    /// Why the end of a read could not be recorded.
    failure: Option<DriverError>,
}

impl<R: Resource> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Resource> fmt::Debug for Shared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("holders", &Arc::strong_count(&self.0))
            .finish_non_exhaustive()
    }
}

impl<R: Resource> Block<R> {
    /// The bundle, and what must be over before it may be written or freed.
    fn take(&mut self) -> (R, Fence) {
        let ended = std::mem::take(self.ended.get_mut().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: called once, by `drop` or by `reclaim`, which forgets the block.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: as above.
        let written = unsafe { ManuallyDrop::take(&mut self.written) };
        // R1 and R2: the readers waited for `written`, but there may be none.
        let fence = match ended.failure {
            Some(error) => Fence::lost(error),
            None => written.and(ended.readers),
        };
        (bundle, fence)
    }
}

impl<R: Resource> Drop for Block<R> {
    fn drop(&mut self) {
        let (bundle, mut fence) = self.take();
        // SAFETY: R3: no lease is left, so every use is over once the fence is.
        unsafe { bundle.retire(&mut fence) }
    }
}

impl<R: Resource> Shared<R> {
    /// The bundle again, for writing, if this is its only holder and no lease is out; waits, where it is acquired, for
    /// every reader.
    ///
    /// # Errors
    /// The shared bundle as it was. A lease leaked with `mem::forget` keeps it for ever, and does no more (H09, H22).
    pub fn reclaim(self) -> Result<Handoff<R>, Self> {
        let block = Arc::try_unwrap(self.0).map_err(Self)?;
        let (bundle, fence) = ManuallyDrop::new(block).take();
        Ok(Handoff::pending(bundle, fence))
    }
}

/// The right of stream `S` to read a shared bundle. Dropping it ends the read, in the stream's order.
#[must_use = "dropping a lease ends it at once"]
pub struct Lease<R: Resource, S: StreamTag> {
    block: Arc<Block<R>>,
    stream: Stream<S>,
}

impl<R: Resource, S: StreamTag> fmt::Debug for Lease<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl<R: Resource, S: StreamTag> Lease<R, S> {
    /// Views of all parts, for reading on `S`. Nothing in them can be written, swapped or kept past the lease (H08).
    pub fn view(&self) -> R::Ref<'_, S> {
        // SAFETY: the lease made `S` wait for `written` (R1), nothing writes while it exists (R3), and work that uses the view
        // is enqueued while the lease is borrowed, before its end is recorded.
        unsafe { self.block.bundle.by_ref() }
    }
}

impl<R: Resource, S: StreamTag> Drop for Lease<R, S> {
    fn drop(&mut self) {
        // Locked before the record: were it the other way about, two threads that end leases of one stream could record in
        // one order and get the lock in the other, and the earlier event would replace the later (R2).
        // Whole after any panic: each arm is one assignment.
        let mut ended = self.block.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match self.stream.core().events().record(self.stream.at(), false) {
            Ok(lease) => {
                // A later event of a stream covers its earlier ones, so one for each stream is enough.
                match ended
                    .readers
                    .iter_mut()
                    .find(|reader| reader.origin() == lease.origin())
                {
                    Some(reader) => *reader = lease,
                    None => ended.readers.push(lease),
                }
            }
            Err(error) => ended.failure = Some(error),
        }
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
        let written = self
            .core()
            .events()
            .record(self.at(), false)
            .during("Stream::share")?;
        // SAFETY: it goes into a block behind an event recorded after every use (R1).
        let bundle = ManuallyDrop::new(unsafe { bundle.detach() });
        let written = ManuallyDrop::new(Fence::from(written));
        Ok(Shared(Arc::new(Block {
            bundle,
            written,
            ended: Mutex::default(),
        })))
    }

    /// Lets this stream read a shared bundle; it waits, on the GPU, for what wrote it (`cuStreamWaitEvent`), and for no
    /// other reader. Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn lease<R: Resource>(&self, shared: &Shared<R>) -> Result<Lease<R, S>>
    where
        R::Device: SameAs<S::Device>,
        S::Device: Live,
    {
        shared.0.written.wait_on(self.at()).during("Stream::lease")?;
        Ok(Lease {
            block: Arc::clone(&shared.0),
            stream: self.clone(),
        })
    }
}
