//! Copies between devices.
//!
//! Memory of another device never gets a place of this one: it arrives as the [`Handoff`] that it
//! was released into, and leaves as one. The copying stream waits for the handoff's fence, copies,
//! and records the fence of the handoff that it returns. So the two sides are ordered by what
//! orders everything else, and nothing is owned by a stream of a device that it is not on:
//!
//! ```text
//!   on device B                         on device A
//!   DeviceBuffer<T, Compute<B>>
//!      │ release
//!      ▼
//!   Handoff<DeviceBuffer<T, Idle<B>>> ──▶ copy_from_peer: waits, copies, records
//!                                          │
//!   Handoff<DeviceBuffer<T, Idle<B>>> ◀────┘       &mut DeviceSlice<T, Copies<A>>
//!      │ acquire: waits for the copy
//!      ▼
//!   DeviceBuffer<T, Compute<B>>
//! ```
//!
//! Memory is freed in the order of its own device: a handoff that is dropped is freed there, behind
//! the copy.

use std::ops::Range;

use crate::device::Device;
use crate::device::call::Call;
use crate::error::{During, Refused, Result};
use crate::memory::{DeviceBuffer, DeviceSlice, Element, RangeIndex};
use crate::order::fence::Fence;
use crate::order::handoff::Handoff;
use crate::order::unless::{Unless, unwound};
use crate::stream::{Stream, same_length};
use crate::tag::{Idle, Live, ReadBy, StreamTag, WriteBy};
use cuda_rt_driver::Kind;
use cuda_rt_driver::{DeviceAddress, DriverResult, PeerAccess, RawPeer};

/// Memory of the device `D`, on its way.
type Theirs<T, D> = Handoff<DeviceBuffer<T, Idle<D>>>;

impl<D: Live> Device<D> {
    /// How this device gets at the memory of `other`: over the link between them, or with host
    /// memory between (`cuDeviceCanAccessPeer`). Where there is a link it is opened
    /// (`cuMemPoolSetAccess`), for all that `other` has allocated and will; the first copy does so
    /// too. Opening it may block, for milliseconds where much is allocated.
    ///
    /// With the environment variable `CUDA_RT_PEER_ACCESS` set to 0 no link is opened between GPUs.
    ///
    /// Ask where speed counts: on a pair of H200s copies ran at 38 GB/s with host memory between,
    /// and at 396 GB/s over NVLink.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver), also where the two can exchange nothing at all: a
    /// GPU and a simulated device, or two that were simulated apart.
    pub fn peer_access<E: Live>(&self, other: &Device<E>) -> Result<PeerAccess> {
        let peer = other.core().driver().peer();
        self.core()
            .driver()
            .peer_access(peer)
            .during("Device::peer_access")
    }
}

/// Copies from and to memory of other devices.
impl<S: StreamTag> Stream<S> {
    /// Copies `range` of a buffer of another device to memory of this stream (`cuMemcpyDtoDAsync`,
    /// or `cuMemcpyPeerAsync` where the devices have [no link](Device::peer_access)).
    /// Stream-ordered here: after what the handoff waits for, and the handoff that is returned
    /// waits for the copy. The other device does nothing, and its streams wait only if they acquire
    /// the buffer.
    ///
    /// Counterexample that the handoffs are for: were the source taken as `&DeviceSlice`, a stream
    /// of its own device could overwrite it as soon as the call is back, while the copy, on a
    /// stream that knows nothing of that one, still reads.
    ///
    /// # Hazards prevented
    /// H37: the source is not on any stream until its handoff is acquired, and the destination is
    /// this stream's.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch), and
    /// [`Error::Driver`](crate::Error::Driver), also for devices that can exchange nothing. The
    /// source is then freed behind its events; [`try_copy_from_peer`](Self::try_copy_from_peer)
    /// gives it back.
    ///
    /// # Panics
    /// If the range is not within the source.
    ///
    /// ```
    /// # use cuda_rt::Device;
    /// # use cuda_rt::simulator::SimConfig;
    /// cuda_rt::streams! { pub Compute; pub Copies; }
    ///
    /// # Device::simulated(SimConfig::default(), |first| first.simulated_peer(|second| {
    /// let compute = second.stream::<Compute<_>>()?;
    /// let copies = first.stream::<Copies<_>>()?;
    /// let frame = compute.alloc_zeroed::<f32>(1024)?;
    /// let mut here = copies.alloc_zeroed::<f32>(512)?;
    ///
    /// let frame = copies.copy_from_peer(compute.release(frame)?, 512.., &mut here)?;
    /// let frame = compute.acquire(frame)?; // may be written: this waits for the copy
    /// # Ok::<(), cuda_rt::Error>(())
    /// # }))???;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn copy_from_peer<T: Element, D: Live, Q: WriteBy<S>>(
        &self,
        source: Theirs<T, D>,
        range: impl RangeIndex,
        destination: &mut DeviceSlice<T, Q>,
    ) -> Result<Theirs<T, D>>
    where
        S::Device: Live,
    {
        Ok(self.try_copy_from_peer(source, range, destination)?)
    }

    /// As [`copy_from_peer`](Self::copy_from_peer), giving the source back when it fails.
    ///
    /// # Errors
    /// [`Refused`] with the source, pending; behind the copy, should the driver have made it.
    #[track_caller]
    pub fn try_copy_from_peer<T: Element, D: Live, Q: WriteBy<S>>(
        &self,
        source: Theirs<T, D>,
        range: impl RangeIndex,
        destination: &mut DeviceSlice<T, Q>,
    ) -> Result<Theirs<T, D>, Refused<Theirs<T, D>>>
    where
        S::Device: Live,
    {
        const DURING: &str = "Stream::copy_from_peer";
        let range = range.within(source.pending_ref().len());
        let bytes = same_length::<T>(range.len(), destination.len(), DURING);
        let side = Side::From(destination.address());
        self.copy_across(source, range, bytes, side, DURING)
    }

    /// Copies memory of this stream to `range` of a buffer of another device. As
    /// [`copy_from_peer`](Self::copy_from_peer), the other way round: the rest of the destination
    /// stays as it is.
    ///
    /// # Hazards prevented
    /// H37: the destination is not on any stream until its handoff is acquired, and whoever
    /// acquires it waits for the copy.
    ///
    /// # Errors
    /// As [`copy_from_peer`](Self::copy_from_peer); [`try_copy_to_peer`](Self::try_copy_to_peer)
    /// gives the destination back.
    ///
    /// # Panics
    /// If the range is not within the destination.
    ///
    /// ```
    /// # use cuda_rt::Device;
    /// # use cuda_rt::simulator::SimConfig;
    /// # cuda_rt::streams! { pub Compute; pub Copies; }
    /// # Device::simulated(SimConfig::default(), |first| first.simulated_peer(|second| {
    /// # let compute = second.stream::<Compute<_>>()?;
    /// # let copies = first.stream::<Copies<_>>()?;
    /// let edge = copies.alloc_zeroed::<f32>(16)?;
    /// let field = compute.alloc_zeroed::<f32>(1024)?;
    ///
    /// let field = copies.copy_to_peer(&edge, compute.release(field)?, ..16)?;
    /// let field = compute.acquire(field)?; // waits for the copy
    /// # Ok::<(), cuda_rt::Error>(())
    /// # }))???;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn copy_to_peer<T: Element, D: Live, P: ReadBy<S>>(
        &self,
        source: &DeviceSlice<T, P>,
        destination: Theirs<T, D>,
        range: impl RangeIndex,
    ) -> Result<Theirs<T, D>>
    where
        S::Device: Live,
    {
        Ok(self.try_copy_to_peer(source, destination, range)?)
    }

    /// As [`copy_to_peer`](Self::copy_to_peer), giving the destination back when it fails.
    ///
    /// # Errors
    /// [`Refused`] with the destination, pending; behind the copy, should the driver have made it.
    #[track_caller]
    pub fn try_copy_to_peer<T: Element, D: Live, P: ReadBy<S>>(
        &self,
        source: &DeviceSlice<T, P>,
        destination: Theirs<T, D>,
        range: impl RangeIndex,
    ) -> Result<Theirs<T, D>, Refused<Theirs<T, D>>>
    where
        S::Device: Live,
    {
        const DURING: &str = "Stream::copy_to_peer";
        let range = range.within(destination.pending_ref().len());
        let bytes = same_length::<T>(source.len(), range.len(), DURING);
        let side = Side::To(source.address());
        self.copy_across(destination, range, bytes, side, DURING)
    }

    /// Copies between the memory of this stream at `ours`, which is live and as long, and `range`
    /// of `theirs`, which it is within.
    #[track_caller]
    fn copy_across<T: Element, D: Live>(
        &self,
        theirs: Theirs<T, D>,
        range: Range<usize>,
        bytes: Result<usize>,
        ours: Side,
        during: &'static str,
    ) -> Result<Theirs<T, D>, Refused<Theirs<T, D>>> {
        let call = self.call(during);
        // The old fence says nothing of the copy: lost unless the call returns with the new one.
        let mut theirs = Unless::new(theirs, |mut theirs| {
            let lost = Fence::lost(unwound("cuMemcpyPeerAsync"));
            // SAFETY: HANDOFF-1: it is never over.
            unsafe { theirs.set_fence(lost) };
        });
        let copied = bytes.and_then(|bytes| {
            if bytes == 0 {
                return Ok(None);
            }
            let other = theirs.pending_ref();
            // Theirs may be in use where an ordering of its device could not be made (BUFFER-2).
            let peer = other.core().ordered().during(during)?.peer();
            let there = DeviceAddress(other.address().0 + (range.start * size_of::<T>()) as u64);
            self.enqueue_across(&call, theirs.fence(), peer, there, bytes, ours)
                .map(Some)
        });
        let result = copied.and_then(|copied| {
            let Some(copied) = copied else { return Ok(()) };
            // Also behind a copy that failed: nothing rests on the driver's word that it was not
            // made.
            let (mut fence, recorded) = self.after_copy();
            if copied.is_err() {
                // Two devices that cannot copy may not wait for each other either: the wait for the
                // old fence may have ordered nothing.
                fence = Fence::all([theirs.share_fence(), fence]);
            }
            // SAFETY: HANDOFF-1: the copy, if it was made, is before the new fence. Every earlier
            // use is before the old one, which the copy waited for. After an error nothing rests on
            // that wait: the fence holds both.
            unsafe { theirs.set_fence(fence) };
            copied.and(recorded).during(during)
        });
        let theirs = theirs.take_back();
        match result {
            Ok(()) => Ok(theirs),
            Err(error) => Err(Refused { error, value: theirs }),
        }
    }

    /// Waits for `fence`, which every use of what is at `there` on the device `peer` is ordered
    /// before, and copies. An error is of what comes before the copy; the copy's own is in the
    /// value.
    fn enqueue_across(
        &self,
        call: &Call<'_>,
        fence: &Fence,
        peer: RawPeer,
        there: DeviceAddress,
        bytes: usize,
        ours: Side,
    ) -> Result<DriverResult<()>> {
        let (driver, during) = (call.driver()?, call.name());
        // Before the wait, which means nothing between devices that do not know each other.
        driver.peer_access(peer).during(during)?;
        fence.wait_on(self.at()).during(during)?;
        let here = driver.peer();
        let (to, from, label) = match ours {
            Side::From(ours) => ((here, ours), (peer, there), "copy from peer"),
            Side::To(ours) => ((peer, there), (here, ours), "copy to peer"),
        };
        call.attempt(Kind::CopyPeer, label, bytes, |driver, at| {
            // SAFETY: ours belongs to this stream's order (`ReadBy`, `WriteBy`) and is freed in it;
            // every use of theirs is ordered before the fence that this stream waits for
            // (HANDOFF-1), and its handoff gets a fence after the copy. Both are live and in
            // bounds.
            unsafe { driver.copy_peer(to, from, bytes, at) }
        })
    }

    /// A fence that this stream's copy comes before, and so all that it waited for; lost where that
    /// is not known.
    fn after_copy(&self) -> (Fence, DriverResult<()>) {
        match self.core().events().record(self.at(), false) {
            Ok(lease) => (lease.into(), Ok(())),
            // Waiting on the host orders as well.
            // SAFETY: the core keeps the stream.
            Err(error) => match unsafe { self.core().driver().synchronize_stream(self.at().raw) } {
                Ok(()) => (Fence::DONE, Ok(())),
                // Where that fails too no one is to touch or free it, for ever.
                Err(_) => (Fence::lost(error.clone()), Err(error)),
            },
        }
    }
}

/// Which side of a copy is this stream's, and where that is.
#[derive(Clone, Copy)]
enum Side {
    /// The destination.
    From(DeviceAddress),
    /// The source.
    To(DeviceAddress),
}
