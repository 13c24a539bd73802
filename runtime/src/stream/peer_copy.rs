//! Copies between devices.
//!
//! Memory of another device never gets a place on this device. It arrives as the [`Handoff`] of its
//! release, and leaves as a handoff. The copying stream waits for the handoff's fence, copies, and
//! records the fence of the handoff that it returns. So fences order both sides, as they order all
//! other work, and no stream owns memory of another device:
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
//! The memory of a dropped handoff is freed on its own device, behind the copy.

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

/// Memory of the other device `D`, pending.
type Theirs<T, D> = Handoff<DeviceBuffer<T, Idle<D>>>;

impl<D: Live> Device<D> {
    /// How this device reaches the memory of `other`: over a link between them, or through host
    /// memory (`cuDeviceCanAccessPeer`). If there is a link, the call opens it for all past and
    /// later allocations of `other` (`cuMemPoolSetAccess`). The first copy opens it too. Opening
    /// may block, for milliseconds if `other` has allocated much memory.
    ///
    /// If the environment variable `CUDA_RT_PEER_ACCESS` is 0, no link between GPUs is opened.
    ///
    /// The answer matters for speed: on a pair of H200s copies ran at 38 GB/s through host memory,
    /// and at 396 GB/s over NVLink.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver), also if the two devices can exchange nothing at
    /// all: a GPU and a simulated device, or two devices that were simulated apart.
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
    /// Stream-ordered on this stream: the copy waits for the [fence](Handoff) of `source`, and the
    /// returned handoff waits for the copy. The other device does nothing, and its streams wait
    /// only if they acquire the buffer.
    ///
    /// Counterexample, if the source were a `&DeviceSlice`: a stream of the source's own device
    /// could overwrite the source as soon as the call returns. The copy, on a stream with no order
    /// to that stream, could still be reading.
    ///
    /// # Hazards prevented
    /// [H37](crate::hazards#h37): the source is on no stream until its handoff is acquired, and the
    /// destination belongs to this stream.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch), and
    /// [`Error::Driver`](crate::Error::Driver), also for devices that can exchange nothing. The
    /// source is then freed behind its fence; [`try_copy_from_peer`](Self::try_copy_from_peer)
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

    /// Like [`copy_from_peer`](Self::copy_from_peer), but gives the source back on an error.
    ///
    /// # Errors
    /// [`Refused`] with the source, pending. If the driver enqueued the copy, the source waits for
    /// the copy too.
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

    /// Copies memory of this stream to `range` of a buffer of another device. The order is as for
    /// [`copy_from_peer`](Self::copy_from_peer). The rest of the destination does not change.
    ///
    /// # Hazards prevented
    /// [H37](crate::hazards#h37): the destination is on no stream until its handoff is acquired,
    /// and the acquiring stream waits for the copy.
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

    /// Like [`copy_to_peer`](Self::copy_to_peer), but gives the destination back on an error.
    ///
    /// # Errors
    /// [`Refused`] with the destination, pending. If the driver enqueued the copy, the destination
    /// waits for the copy too.
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

    /// Copies between this stream's memory at `ours` and `range` of `theirs`. The memory at `ours`
    /// is live and as long as `range`, which lies within `theirs`.
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
        // The old fence says nothing of the copy. After a panic the fence is lost, so the memory is
        // never freed.
        let mut theirs = Unless::new(theirs, |mut theirs| {
            let lost = Fence::lost(unwound("cuMemcpyPeerAsync"));
            // SAFETY: HANDOFF-1: a lost fence is never over.
            unsafe { theirs.set_fence(lost) };
        });
        let copied = bytes.and_then(|bytes| {
            if bytes == 0 {
                return Ok(None);
            }
            let other = theirs.pending_ref();
            // If an ordering on the other device could not be made, its memory may be in use: the
            // fence proves nothing (BUFFER-2).
            let peer = other.core().ordered().during(during)?.peer();
            let there = DeviceAddress(other.address().0 + (range.start * size_of::<T>()) as u64);
            self.enqueue_across(&call, theirs.fence(), peer, there, bytes, ours)
                .map(Some)
        });
        let result = copied.and_then(|copied| {
            let Some(copied) = copied else { return Ok(()) };
            // The new fence stands behind a failed copy too: the driver's error does not prove that
            // no copy was enqueued.
            let (fence, recorded) = self.after_copy();
            // SAFETY: HANDOFF-1: the copy, if it was enqueued, is before the new fence. Every
            // earlier use is before the old fence, which this stream waits for: `enqueue_across`
            // has made that wait, on a device that can wait for the other one.
            unsafe { theirs.set_fence(fence) };
            copied.and(recorded).during(during)
        });
        let theirs = theirs.take_back();
        match result {
            Ok(()) => Ok(theirs),
            Err(error) => Err(Refused { error, value: theirs }),
        }
    }

    /// Waits for `fence` and copies. Every use of the memory at `there` on the device `peer` is
    /// ordered before `fence`. The outer error comes from a step before the copy, the inner error
    /// from the copy itself.
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
        // This check comes before the wait: a wait between unrelated devices orders nothing.
        driver.peer_access(peer).during(during)?;
        fence.wait_on(self.at()).during(during)?;
        let here = driver.peer();
        let (to, from, label) = match ours {
            Side::From(ours) => ((here, ours), (peer, there), "copy from peer"),
            Side::To(ours) => ((peer, there), (here, ours), "copy to peer"),
        };
        call.attempt(Kind::CopyPeer, label, bytes, move |driver, at| {
            // SAFETY: the memory at `ours` belongs to this stream's order (`ReadBy`, `WriteBy`) and
            // is freed in it. Every use of the other memory is ordered before the fence that this
            // stream waits for (HANDOFF-1), and its handoff gets a fence after the copy. Both are
            // live and in bounds.
            unsafe { driver.copy_peer(to, from, bytes, at) }
        })
    }

    /// A fence after this stream's copy, and so after all work that the copy waited for. The fence
    /// is lost if the order cannot be made.
    fn after_copy(&self) -> (Fence, DriverResult<()>) {
        match self.core().events().record(self.at(), false) {
            Ok(lease) => (lease.into(), Ok(())),
            // Waiting on the host orders as well.
            Err(error) => match self.core().wait_for_stream(self.at()) {
                Ok(()) => (Fence::DONE, Ok(())),
                // If the host's wait fails too, nothing may ever touch or free the memory.
                Err(_) => (Fence::lost(error.clone()), Err(error)),
            },
        }
    }
}

/// The address of this stream's memory in a copy, and the side on which it stands.
#[derive(Clone, Copy)]
enum Side {
    /// The copy comes from the other device: this stream's memory is the destination.
    From(DeviceAddress),
    /// The copy goes to the other device: this stream's memory is the source.
    To(DeviceAddress),
}
