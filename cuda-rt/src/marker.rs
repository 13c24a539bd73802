//! Waiting for a stream's work without a buffer.

use std::fmt;
use std::marker::PhantomData;

use crate::error::{During, Result};
use crate::fence::EventLease;
use crate::place::{DeviceTag, Live, StreamTag};
use crate::stream::Stream;

/// A place in a stream's work that other streams of the device, and the host, can wait for.
///
/// It proves nothing about memory: a buffer still moves through a [`Handoff`](crate::Handoff) only, which waits for what it
/// must. Markers are for order that no buffer carries: throttling, a stage that begins when another one has, measuring.
///
/// # Hazards prevented
/// H07: a marker is recorded when it is made, once, and never again.
#[must_use = "a marker orders nothing by itself; wait for it with `Stream::wait_for` or `synchronize`"]
pub struct Marker<D> {
    lease: EventLease,
    device: PhantomData<fn(D) -> D>,
}

impl<D> fmt::Debug for Marker<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Marker({:?})", self.lease)
    }
}

impl<S: StreamTag> Stream<S> {
    /// Marks the present end of the stream's work (`cuEventRecord`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; pub Upload; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    /// let started = compute.marker()?;
    /// upload.wait_for(&started)?; // what follows on `upload` begins no earlier
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn marker(&self) -> Result<Marker<S::Device>> {
        let lease = self
            .core()
            .events()
            .record(self.at(), false)
            .during("Stream::marker")?;
        Ok(Marker {
            lease,
            device: PhantomData,
        })
    }

    /// Makes later work of this stream wait, on the GPU, for a marker (`cuStreamWaitEvent`; skipped for its own).
    /// Stream-ordered; any number of streams may wait for one marker.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn wait_for(&self, marker: &Marker<S::Device>) -> Result<()> {
        marker.lease.wait_on(self.at()).during("Stream::wait_for")
    }
}

impl<D: DeviceTag> Marker<D> {
    /// Blocks the host until the work before the marker is done (`cuEventSynchronize`).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn synchronize(&self) -> Result<()>
    where
        D: Live,
    {
        self.lease.synchronize().during("Marker::synchronize")
    }

    /// Whether the work before the marker is done (`cuEventQuery`). Does not block.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn is_reached(&self) -> Result<bool>
    where
        D: Live,
    {
        self.lease.query().during("Marker::is_reached")
    }
}
