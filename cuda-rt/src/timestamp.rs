//! Timing marks in a stream's work.

use std::fmt;
use std::marker::PhantomData;

use crate::driver::DriverResult;
use crate::error::{During, Refused, Result};
use crate::fence::EventLease;
use crate::place::Live;

/// A mark in a stream's work that may not have been reached yet. It has no time to tell until then (H34).
#[must_use = "a mark tells its time through `synchronize`"]
pub struct Timestamp<D> {
    lease: EventLease,
    device: PhantomData<fn(D) -> D>,
}

/// A mark that all work before it has reached.
pub struct Reached<D> {
    lease: EventLease,
    device: PhantomData<fn(D) -> D>,
}

impl<D> fmt::Debug for Timestamp<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({:?})", self.lease)
    }
}

impl<D> fmt::Debug for Reached<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reached({:?})", self.lease)
    }
}

impl<D: Live> Timestamp<D> {
    pub(crate) fn new(lease: EventLease) -> Self {
        Self {
            lease,
            device: PhantomData,
        }
    }

    /// As [`synchronize`](Self::synchronize), with the driver's own error.
    pub(crate) fn reached(self) -> DriverResult<Reached<D>> {
        self.lease.synchronize()?;
        Ok(Reached {
            lease: self.lease,
            device: PhantomData,
        })
    }

    /// Blocks the host until the mark is reached (`cuEventSynchronize`).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); the mark is lost.
    pub fn synchronize(self) -> Result<Reached<D>> {
        self.reached().during("Timestamp::synchronize")
    }

    /// The time if the mark has been reached, or the mark as it was (`cuEventQuery`). Does not block.
    ///
    /// # Errors
    /// [`Refused`] with the mark.
    pub fn try_reached(self) -> Result<std::result::Result<Reached<D>, Self>, Refused<Self>> {
        match self.lease.query().during("Timestamp::try_reached") {
            Ok(true) => Ok(Ok(Reached {
                lease: self.lease,
                device: PhantomData,
            })),
            Ok(false) => Ok(Err(self)),
            Err(error) => Err(Refused { error, value: self }),
        }
    }
}

impl<D: Live> Reached<D> {
    /// Milliseconds from `earlier` to this mark, negative if it came first (`cuEventElapsedTime`, whose resolution is about
    /// half a microsecond). Modelled on a simulated device. Marks of two devices cannot be compared (H35).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn elapsed_ms_since(&self, earlier: &Reached<D>) -> Result<f32> {
        // SAFETY: both are timing events of one device, recorded when they were made and seen done since.
        unsafe {
            self.lease
                .driver()
                .elapsed_ms(earlier.lease.raw(), self.lease.raw())
        }
        .during("Reached::elapsed_ms_since")
    }
}
