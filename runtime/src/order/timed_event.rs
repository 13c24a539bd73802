//! [`TimedEvent`] and [`FinishedEvent`]: events that take the time.

use std::fmt;
use std::marker::PhantomData;

use crate::error::{During, Refused, Result};
use crate::order::event_pool::EventLease;
use crate::tag::Live;
use cuda_rt_driver::DriverResult;

/// A timing event that may not be done yet. It has no time until it is done
/// ([H34](crate::hazards#h34)).
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// # let mut data = compute.alloc_zeroed::<f32>(1 << 16)?;
/// let begin = compute.record_timed_event()?;
/// compute.fill(&mut data, 1.0)?;
/// let mut end = compute.record_timed_event()?;
/// let end = loop {
///     match end.query()? {
///         Ok(finished) => break finished,
///         Err(pending) => end = pending, // the host could do other work here
///     }
/// };
/// let ms = end.elapsed_ms_since(&begin.synchronize()?)?;
/// assert!(ms >= 0.0, "{ms}");
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[must_use = "a mark tells its time through `synchronize`"]
pub struct TimedEvent<D> {
    lease: EventLease,
    device: PhantomData<fn(D) -> D>,
}

/// A timing event that is done.
pub struct FinishedEvent<D> {
    lease: EventLease,
    device: PhantomData<fn(D) -> D>,
}

impl<D> fmt::Debug for TimedEvent<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimedEvent({:?})", self.lease)
    }
}

impl<D> fmt::Debug for FinishedEvent<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FinishedEvent({:?})", self.lease)
    }
}

impl<D: Live> TimedEvent<D> {
    pub(crate) fn new(lease: EventLease) -> Self {
        Self {
            lease,
            device: PhantomData,
        }
    }

    /// Like [`synchronize`](Self::synchronize), but returns the driver's own error.
    pub(crate) fn reached(self) -> DriverResult<FinishedEvent<D>> {
        self.lease.synchronize()?;
        Ok(FinishedEvent {
            lease: self.lease,
            device: PhantomData,
        })
    }

    /// Blocks the host until the event is done (`cuEventSynchronize`).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); the event is then dropped.
    pub fn synchronize(self) -> Result<FinishedEvent<D>> {
        self.reached().during("TimedEvent::synchronize")
    }

    /// Returns the finished event if the event is done, or else the event, unchanged
    /// (`cuEventQuery`). Does not block.
    ///
    /// # Errors
    /// [`Refused`] with the event.
    pub fn query(self) -> Result<std::result::Result<FinishedEvent<D>, Self>, Refused<Self>> {
        match self.lease.query().during("TimedEvent::query") {
            Ok(true) => Ok(Ok(FinishedEvent {
                lease: self.lease,
                device: PhantomData,
            })),
            Ok(false) => Ok(Err(self)),
            Err(error) => Err(Refused { error, value: self }),
        }
    }
}

impl<D: Live> FinishedEvent<D> {
    /// The time from `earlier` to this event, in milliseconds (`cuEventElapsedTime`, whose
    /// resolution is about half a microsecond). It is negative if this event came first. A
    /// simulated device models the time. Events of two devices cannot be compared
    /// ([H35](crate::hazards#h35)).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn elapsed_ms_since(&self, earlier: &FinishedEvent<D>) -> Result<f32> {
        // SAFETY: both are timing events of the device `D`, and a wait or query saw both done.
        unsafe { self.lease.elapsed_ms_since(&earlier.lease) }.during("FinishedEvent::elapsed_ms_since")
    }
}
