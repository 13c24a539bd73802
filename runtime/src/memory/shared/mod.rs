//! [`Shared`] and [`Lease`]: one bundle that many streams read.

mod block;
mod host_lease;

use std::fmt;
use std::sync::Arc;

pub use host_lease::HostLease;

use crate::device::core::DeviceCore;
use crate::error::{During, Result};
use crate::memory::{Bundle, OwnedBy, ToHost};
use crate::order::event_pool::EventLease;
use crate::order::fence::Fence;
use crate::order::handoff::Handoff;
use crate::order::stream_ref::StreamRef;
use crate::stream::Stream;
use crate::tag::{DeviceTag, Idle, Live, OnDevice, SameAs, StreamTag};
use block::{Block, Written};
use cuda_rt_driver::CallSite;

/// A bundle that any number of streams may read, each through a [`Lease`], and the host through a
/// [`HostLease`], and that nothing may write.
///
/// A clone is another holder of the same bundle. Counterexample: two streams read, and then a
/// writer waits for the later reader only. The other reader sees half-written data. A shared bundle
/// can be written again only after [`reclaim`](Self::reclaim), which waits for all readers
/// ([H10](crate::hazards#h10)).
///
/// Dropping the last holder frees the bundle behind all readers, without blocking. A bundle that
/// only its writer's stream has read is freed in the order of this stream, like a buffer.
///
/// ```
/// # cuda_rt::streams! { pub Writer; pub Left; pub Right; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let (writer, left) = (gpu.stream::<Writer>()?, gpu.stream::<Left>()?);
/// let right = gpu.stream::<Right>()?;
/// let weights = writer.share(writer.alloc_from_slice(&[1.5_f32; 64])?)?;
/// assert_eq!((weights.len(), weights.peek().len()), (64, 64)); // known while the copy is pending
///
/// // Both streams wait for the writer, and not for each other.
/// let (on_left, on_right) = (left.lease(&weights)?, right.lease(&weights)?);
/// let a = left.init_from(left.alloc_uninit(64)?, &on_left.view())?;
/// let b = right.init_from(right.alloc_uninit(64)?, &on_right.view())?;
///
/// // Written again only when no lease is left; the new owner waits for both readers.
/// let weights = weights.reclaim().expect_err("two leases exist");
/// drop((on_left, on_right));
/// let mut weights = writer.acquire(weights.reclaim().expect("no lease exists"))?;
/// writer.fill(&mut weights, 2.0)?;
/// assert_eq!(left.copy_to_vec(&a)?, right.copy_to_vec(&b)?);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub struct Shared<R: Bundle>(Arc<Block<R>>);

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

impl<R: Bundle> Shared<R> {
    pub(super) fn bundle(&self) -> &R {
        self.0.bundle()
    }
}

impl<R: Bundle> Shared<R>
where
    R::Device: Live,
{
    /// Shares an idle bundle. Calls nothing of the driver, and no reader waits.
    #[track_caller]
    pub fn new(idle: R) -> Self {
        idle.note_host_access(ToHost::writes(CallSite::here("Shared::new")));
        // SAFETY: SHARED-1: the bundle is idle, so its writes are over.
        Self(Arc::new(unsafe {
            Block::new(idle, Written::Behind(Fence::DONE))
        }))
    }
}

impl<R: Bundle> Shared<R> {
    /// Takes the bundle back for writing, if this is its only holder and no lease exists. The
    /// stream that acquires the bundle waits for every reader. Does not block. If the writer's
    /// stream has read too, an event is recorded there (`cuEventRecord`).
    ///
    /// # Errors
    /// The shared bundle, unchanged. A lease leaked with `mem::forget` keeps the bundle shared for
    /// ever, and does no other harm ([H09](crate::hazards#h09), [H22](crate::hazards#h22)).
    pub fn reclaim(self) -> Result<Handoff<R>, Self> {
        let (bundle, fence) = Arc::try_unwrap(self.0).map_err(Self)?.into_parts();
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
/// A struct holds a lease of weights beside the buffer that is computed from them, and both move as
/// one bundle:
///
/// ```
/// # cuda_rt::streams! { pub Writer; pub Compute; pub Download; }
/// use cuda_rt::{Bundle, DeviceBuffer, Idle, Lease, Place};
///
/// #[derive(Bundle)]
/// struct Layer<P: Place = Idle> {
///     weights: Lease<DeviceBuffer<f32>, P>,
///     output: DeviceBuffer<f32, P>,
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let (writer, compute) = (gpu.stream::<Writer>()?, gpu.stream::<Compute>()?);
/// # let download = gpu.stream::<Download>()?;
/// let shared = writer.share(writer.alloc_from_slice(&[0.5_f32; 8])?)?;
/// let mut layer = Layer { weights: compute.lease(&shared)?, output: compute.alloc_zeroed(8)? };
/// assert_eq!(layer.weights.peek().len(), 8);
/// compute.copy(&layer.weights.view(), &mut layer.output)?;
///
/// let layer = download.acquire(compute.release(layer)?)?; // still a lease, on another stream
/// assert_eq!(download.copy_to_vec(&layer.output)?, [0.5; 8]);
/// drop(layer); // ends the read, in the order of `download`
/// assert!(shared.reclaim().is_ok());
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// LEASE-1. Writes to the bundle are ordered before the present end of the stream `at`. If `at` is
// `None`, they are over.
// LEASE-2. Every read under this lease is ordered before the present end of `at`. If `at` is
// `None`, it is over.
// LEASE-3. While `P` is a stream tag, `at` is that stream.
// LEASE-4. `P` is a place of the bundle's device.
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
    /// lease ([H08](crate::hazards#h08)).
    pub fn view(&self) -> R::Ref<'_, S> {
        // SAFETY: LEASE-1 and LEASE-3: writes are ordered before later work of `S`. Nothing writes
        // while the lease exists (SHARED-1, SHARED-3). Work that uses the view is enqueued while
        // the lease is borrowed, before the lease's end is recorded.
        unsafe { self.bundle().by_ref() }
    }
}

impl<R: Bundle, P> Lease<R, P> {
    pub(in crate::memory) fn bundle(&self) -> &R {
        let block = self.block.as_ref();
        block
            .expect("a lease that has not ended holds its block")
            .bundle()
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
}

impl<R: Bundle, P> Drop for Lease<R, P> {
    fn drop(&mut self) {
        if let (Some(at), Some(block)) = (self.at, self.block.take()) {
            // LEASE-2 gives SHARED-2.
            block.ends_on(at, &self.core);
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
        if let Some(block) = self.block.take() {
            match fence.stream() {
                Some(at) => block.ends_on(at, &self.core),
                None => block.ends_behind(fence),
            }
        }
    }

    fn note_host_access(&self, passed: ToHost) {
        // LEASE-1: where the lease passes the host, the writes are over. The host may read.
        self.bundle().note_host_access(passed.only_reads());
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
    /// Gives up a bundle, so that many streams and the host can read it (`cuEventRecord`).
    /// Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); the bundle is then dropped in this stream's order.
    pub fn share<R: OwnedBy<S>>(&self, bundle: R) -> Result<Shared<R::Idle>>
    where
        S::Device: Live,
    {
        let event = self.record("Stream::share")?;
        self.shared(bundle, Some(event), "Stream::share")
    }

    /// Like [`share`](Self::share), but records the event only when another stream or the host
    /// first needs it. If none does, sharing costs no call of the driver. The price: the first
    /// other reader then waits for all the work that this stream has by then, and not only for the
    /// writes.
    ///
    /// For values whose readers are found at run time, and are mostly this stream itself.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) on a stream that another library made
    /// ([`interop`](crate::interop)): there the event is recorded at once. The bundle is then
    /// dropped in this stream's order.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let value = compute.share_lazily(compute.alloc_from_slice(&[4_u32, 5])?)?;
    /// let lease = compute.lease(&value)?; // the writer's own stream: no event, and no wait
    /// assert_eq!(compute.copy_to_vec(&lease.view())?, [4, 5]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn share_lazily<R: OwnedBy<S>>(&self, bundle: R) -> Result<Shared<R::Idle>>
    where
        S::Device: Live,
    {
        self.shared(bundle, None, "Stream::share_lazily")
    }

    fn shared<R: OwnedBy<S>>(
        &self,
        bundle: R,
        event: Option<EventLease>,
        during: &'static str,
    ) -> Result<Shared<R::Idle>> {
        let written = Written::on(self.at(), self.core(), event).during(during)?;
        // SAFETY: the bundle goes into a block whose uses end behind the stream (SHARED-1).
        let bundle = unsafe { bundle.detach() };
        // SAFETY: SHARED-1: the bundle was owned by `S`, so every write is in the order of this
        // stream, before the event, or before its present end.
        Ok(Shared(Arc::new(unsafe { Block::new(bundle, written) })))
    }

    /// Lets this stream read a shared bundle. The stream waits, on the GPU, for the writer
    /// (`cuStreamWaitEvent`), and for no other reader. A lease on the writer's own stream costs no
    /// call of the driver, neither now nor at its end. Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn lease<R: Bundle>(&self, shared: &Shared<R>) -> Result<Lease<R, S>>
    where
        R::Device: SameAs<S::Device>,
        S::Device: Live,
    {
        shared.0.writes_before(self.at()).during("Stream::lease")?;
        // LEASE-1: the wait is enqueued, or this stream wrote the bundle itself.
        Ok(Lease {
            block: Some(Arc::clone(&shared.0)),
            at: Some(self.at()),
            core: Arc::clone(self.core()),
            place: OnDevice::new(),
        })
    }
}
