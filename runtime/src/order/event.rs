//! [`Event`]: order between streams without a buffer.

use std::fmt;
use std::marker::PhantomData;

use crate::error::{During, Result};
use crate::order::event_pool::EventLease;
use crate::stream::Stream;
use crate::tag::{DeviceTag, Live, StreamTag};

/// A place in a stream's work that other streams of the device, and the host, can wait for.
///
/// An event proves nothing about memory: a buffer still moves only through a
/// [`Handoff`](crate::Handoff), which makes the necessary waits. Events serve for throttling, for
/// measuring, and for a stage that must begin after another.
///
/// # Hazards prevented
/// [H07](crate::hazards#h07): an event is recorded when it is made, once, and never again.
///
/// At most two batches in flight: the host waits for the batch before the last one.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use std::collections::VecDeque;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let mut sums = compute.alloc_zeroed::<u32>(16)?;
/// let mut in_flight = VecDeque::new();
/// for batch in 0..5 {
///     if in_flight.len() == 2 {
///         let oldest: cuda_rt::Event<_> = in_flight.pop_front().expect("there are two");
///         oldest.synchronize()?;
///         assert!(oldest.query()?); // done, and it stays done
///     }
///     compute.fill(&mut sums, batch)?;
///     in_flight.push_back(compute.record_event()?);
/// }
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[must_use = "an event orders nothing by itself; wait for it with `Stream::wait_event` or `synchronize`"]
pub struct Event<D> {
    lease: EventLease,
    device: PhantomData<fn(D) -> D>,
}

impl<D> fmt::Debug for Event<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.lease)
    }
}

impl<S: StreamTag> Stream<S> {
    /// Records an event at the present end of the stream's work (`cuEventRecord`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; pub Upload; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    /// let started = compute.record_event()?;
    /// upload.wait_event(&started)?; // what follows on `upload` begins no earlier
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn record_event(&self) -> Result<Event<S::Device>> {
        let lease = self.record("Stream::record_event")?;
        Ok(Event {
            lease,
            device: PhantomData,
        })
    }

    /// Makes later work of this stream wait, on the GPU, for an event (`cuStreamWaitEvent`). The
    /// wait for the stream's own event is skipped. Stream-ordered; any number of streams may wait
    /// for one event. For an event of another device, see
    /// [`wait_event_of_peer`](Self::wait_event_of_peer).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn wait_event(&self, event: &Event<S::Device>) -> Result<()> {
        event.lease.wait_on(self.at()).during("Stream::wait_event")
    }

    /// Makes later work of this stream wait, on the GPU, for an event of another device
    /// (`cuStreamWaitEvent`). Stream-ordered: the host does not block, except that the first call
    /// for two devices opens their link if they have one
    /// ([`peer_access`](crate::Device::peer_access)).
    ///
    /// As always an event orders, and passes no memory on: memory goes to another device by
    /// [`copy_from_peer`](Self::copy_from_peer), which waits by itself.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver), also if the two devices can exchange nothing: a GPU
    /// and a simulated device, or two devices that were simulated apart. The stream then waits for
    /// nothing.
    ///
    /// ```
    /// # use cuda_rt::Device;
    /// # use cuda_rt::simulator::SimConfig;
    /// # cuda_rt::streams! { pub Compute; pub Copies; }
    /// # Device::simulated(SimConfig::default(), |first| first.simulated_peer(|second| {
    /// let (producer, consumer) = (first.stream::<Compute<_>>()?, second.stream::<Copies<_>>()?);
    /// let started = producer.record_event()?;
    /// consumer.wait_event_of_peer(&started)?; // what follows on `consumer` begins no earlier
    /// # Ok::<(), cuda_rt::Error>(())
    /// # }))???;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn wait_event_of_peer<D: Live>(&self, event: &Event<D>) -> Result<()>
    where
        S::Device: Live,
    {
        const DURING: &str = "Stream::wait_event_of_peer";
        // This check comes before the wait: a driver must never see the handle of a stream that
        // another backend made.
        self.core()
            .driver()
            .peer_access(event.lease.peer())
            .during(DURING)?;
        event.lease.wait_on(self.at()).during(DURING)
    }
}

impl<D: DeviceTag> Event<D> {
    /// Blocks the host until the work before the event is done (`cuEventSynchronize`).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn synchronize(&self) -> Result<()>
    where
        D: Live,
    {
        self.lease.synchronize().during("Event::synchronize")
    }

    /// Whether the work before the event is done (`cuEventQuery`). Does not block.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn query(&self) -> Result<bool>
    where
        D: Live,
    {
        self.lease.query().during("Event::query")
    }
}
