//! What goes wrong while a plan runs.

use cuda_rt::Error;

use crate::driver::{self, When};

#[derive(Clone, Debug)]
pub(crate) enum Faults {
    Never,
    /// Calls return errors and are not made, as the steps of the plan say.
    Errors,
    /// One call breaks the driver's contract.
    Breach(Breach),
}

/// A call that unwinds, or that is made and denied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breach {
    pub(crate) calls: driver::Plan,
    /// `None` if no call breaks the contract, and the calls are recorded.
    pub(crate) place: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) method: &'static str,
    /// Counts the calls of the method from 1.
    pub(crate) number: u64,
    pub(crate) when: When,
}

impl Faults {
    /// Begins to count the calls of this thread.
    pub(crate) fn begin(&self) {
        let Self::Breach(Breach { calls, place }) = self else {
            return;
        };
        match *place {
            Some(Place { method, number, when }) => calls.arm_here(method, number, when),
            None => calls.record_here(),
        }
    }

    /// Whether a call has broken the contract.
    pub(crate) fn have_broken(&self) -> bool {
        matches!(self, Self::Breach(breach) if breach.calls.has_unwound())
    }

    /// Whether an error comes from a fault.
    pub(crate) fn explain(&self, error: &Error) -> bool {
        let is_injected = || {
            error
                .driver()
                .is_some_and(|error| error.detail().contains("injected"))
        };
        match self {
            Self::Never => false,
            // A slot that lost its bundle to an earlier error reports that.
            Self::Errors => is_injected() || matches!(error, Error::SlotEmpty),
            Self::Breach(_) => self.have_broken() && driver::follows(error),
        }
    }
}
