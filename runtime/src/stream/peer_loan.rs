//! Loans of memory between devices: a stream of one device takes over a buffer of another.

use crate::error::{During, Error, Refused, Result};
use crate::memory::{DeviceBuffer, PeerBuffer};
use crate::order::handoff::Handoff;
use crate::stream::Stream;
use crate::tag::{Idle, Live, StreamTag};
use cuda_rt_driver::{DriverError, ErrorCode, PeerAccess};

/// Memory of other devices, reached in place.
impl<S: StreamTag> Stream<S> {
    /// Takes over a buffer of another device, for kernels, copies and fills of this stream. They
    /// reach the memory over the link between the devices, which the call opens if need be
    /// ([`Device::peer_access`](crate::Device::peer_access)). Stream-ordered: this stream waits, on
    /// the GPU, for the handoff's event (`cuStreamWaitEvent`), and the host does not.
    ///
    /// The buffer goes back by [`release`](Self::release) and
    /// [`Handoff::for_its_device`](crate::Handoff::for_its_device).
    ///
    /// Counterexample, if a kernel took a `&DeviceSlice` of the other device: a stream of that
    /// device could free or write the memory as soon as the launch returns.
    ///
    /// # Hazards prevented
    /// [H36](crate::hazards#h36), [H37](crate::hazards#h37): the memory belongs to this stream, and
    /// its own device has no handle of it. [H21](crate::hazards#h21).
    ///
    /// # Errors
    /// [`Error::Driver`]: with `NOT_SUPPORTED` where the devices have no link, or the memory is not
    /// of the other device's pool (it was adopted from other code). The buffer is then freed behind
    /// its event; [`try_acquire_peer`](Self::try_acquire_peer) gives it back.
    ///
    /// ```
    /// # use cuda_rt::Device;
    /// # use cuda_rt::simulator::SimConfig;
    /// cuda_rt::streams! { pub Compute; }
    ///
    /// # Device::simulated(SimConfig::default(), |first| first.simulated_peer(|second| {
    /// let here = first.stream::<Compute<_>>()?;
    /// let there = second.stream::<Compute<_>>()?;
    /// let mut frame = there.alloc_zeroed::<u32>(1024)?;
    /// there.fill(&mut frame, 3)?;
    ///
    /// let mut frame = here.acquire_peer(there.release(frame)?)?; // waits for the fill
    /// here.fill(&mut frame[..512], 4)?; // the first device writes the second device's memory
    /// let frame = here.release(frame)?.for_its_device();
    ///
    /// let frame = there.acquire(frame)?; // waits for the first device
    /// assert_eq!(there.copy_to_vec(&frame[511..513])?, [4, 3]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// # }))???;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn acquire_peer<T, D: Live>(
        &self,
        theirs: Handoff<DeviceBuffer<T, Idle<D>>>,
    ) -> Result<PeerBuffer<T, D, S>>
    where
        S::Device: Live,
    {
        Ok(self.try_acquire_peer(theirs)?)
    }

    /// Like [`acquire_peer`](Self::acquire_peer), but gives the handoff back on an error.
    ///
    /// # Errors
    /// [`Refused`] with the handoff, pending as before.
    pub fn try_acquire_peer<T, D: Live>(
        &self,
        theirs: Handoff<DeviceBuffer<T, Idle<D>>>,
    ) -> Result<PeerBuffer<T, D, S>, Refused<Handoff<DeviceBuffer<T, Idle<D>>>>>
    where
        S::Device: Live,
    {
        if let Err(error) = self.reach(&theirs) {
            return Err(Refused { error, value: theirs });
        }
        let (buffer, _fence) = theirs.into_parts();
        // SAFETY: `reach` gave this device access to the pool of the buffer, which holds all of its
        // memory. Every use is ordered before the fence (HANDOFF-1), and the fence before the
        // present end of this stream. The fence may be dropped: the wait is enqueued.
        Ok(unsafe { PeerBuffer::on_loan(buffer, self.at(), self.core()) })
    }

    /// Opens the link to the device of `theirs`, and makes this stream wait for the fence.
    fn reach<T, D: Live>(&self, theirs: &Handoff<DeviceBuffer<T, Idle<D>>>) -> Result<()> {
        const DURING: &str = "Stream::acquire_peer";
        let other = theirs.pending_ref();
        let refused = |why: &str| -> Result<()> {
            let error = DriverError::with_detail("cuDeviceCanAccessPeer", ErrorCode::NOT_SUPPORTED, why);
            Err(Error::Driver {
                during: DURING,
                source: error,
            })
        };
        // Access is given to the pool, and memory of other code is not in it.
        if other.is_foreign() {
            return refused("memory that was adopted from other code, and is not in its device's pool");
        }
        // If an ordering on the other device could not be made, its memory may be in use: the fence
        // proves nothing (BUFFER-2).
        let peer = other.core().ordered().during(DURING)?.peer();
        let driver = self.core().ordered().during(DURING)?;
        // This check comes before the wait: a wait between unrelated devices orders nothing.
        match driver.peer_access(peer).during(DURING)? {
            PeerAccess::Direct => theirs.fence().wait_on(self.at()).during(DURING),
            PeerAccess::Staged => refused("the devices have no link: copy the memory, with `copy_from_peer`"),
        }
    }
}
