//! Timing marks in a stream's work.

use std::fmt;
use std::marker::PhantomData;

use crate::error::{During, Refused, Result};
use crate::order::event_pool::EventLease;
use crate::tag::Live;
use cuda_rt_driver::DriverResult;

/// A mark in a stream's work that may not have been reached yet. It has no time to tell until then
/// (H34).
#[must_use = "a mark tells its time through `synchronize`"]
pub struct TimedEvent<D> {
    lease: EventLease,
    device: PhantomData<fn(D) -> D>,
}

/// A mark that all work before it has reached.
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

    /// As [`synchronize`](Self::synchronize), with the driver's own error.
    pub(crate) fn reached(self) -> DriverResult<FinishedEvent<D>> {
        self.lease.synchronize()?;
        Ok(FinishedEvent {
            lease: self.lease,
            device: PhantomData,
        })
    }

    /// Blocks the host until the mark is reached (`cuEventSynchronize`).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); the mark is lost.
    pub fn synchronize(self) -> Result<FinishedEvent<D>> {
        self.reached().during("TimedEvent::synchronize")
    }

    /// The time if the mark has been reached, or the mark as it was (`cuEventQuery`). Does not
    /// block.
    ///
    /// # Errors
    /// [`Refused`] with the mark.
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
    /// Milliseconds from `earlier` to this mark, negative if it came first (`cuEventElapsedTime`,
    /// whose resolution is about half a microsecond). Modelled on a simulated device. Marks of two
    /// devices cannot be compared (H35).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn elapsed_ms_since(&self, earlier: &FinishedEvent<D>) -> Result<f32> {
        // SAFETY: both are timing events of one device, seen done since they were recorded.
        unsafe { self.lease.elapsed_ms_since(&earlier.lease) }.during("FinishedEvent::elapsed_ms_since")
    }
}
