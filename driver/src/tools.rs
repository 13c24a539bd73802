//! [`Tools`]: what looks at a device from the side, and is no call of its hardware.

use std::fmt;

use crate::{Driver, Hint, Race, Simulated, Trace};

/// What a device has beside its [`Driver`]: a checker that follows its calls, times from its own
/// tracing, and the handle of a simulated device. The work of the device is the same without.
///
/// No method has a default: a driver that wraps another says of each what becomes of it.
///
/// # Safety
///
/// A trace that [`begin_trace`](Self::begin_trace) gives is of the device of the driver that has
/// these tools: it is asked about that driver's streams.
pub unsafe trait Tools: Send + Sync + fmt::Debug {
    /// The handle of the simulated device, if it is one.
    fn simulator(&self) -> Option<&dyn Simulated>;

    /// Whether a checker follows the calls.
    fn is_checked(&self) -> bool;

    /// The races that a checker found; without a checker there are none.
    fn races(&self) -> Vec<Race>;

    /// Tells a checker what no call says. Without a checker it does nothing.
    fn hint(&self, note: Hint<'_>);

    /// Begins to trace the device's work with the hardware's own times, where that is possible.
    fn begin_trace(&self) -> Option<Box<dyn Trace>>;
}

/// A driver and its tools in one value, as a device is opened over them. Every type that is both
/// is this.
pub trait DriverWithTools: Driver + Tools {}

impl<D: Driver + Tools> DriverWithTools for D {}
