//! [`Tools`]: observers of a device, which are not part of its hardware calls.

use std::fmt;

use crate::{Driver, Hint, Race, Simulated, Trace};

/// The tools that a device has beside its [`Driver`]: a checker that follows its calls, times from
/// its own tracing, and the handle of a simulated device. Tools do not change the device's work.
///
/// No method has a default: a driver that wraps another must decide about each method.
///
/// # Safety
///
/// A trace that [`begin_trace`](Self::begin_trace) returns is of the device whose driver has these
/// tools: its callers pass it that driver's streams.
pub unsafe trait Tools: Send + Sync + fmt::Debug {
    /// The handle of the simulated device, if the device is simulated.
    fn simulator(&self) -> Option<&dyn Simulated>;

    /// Whether a checker follows the calls.
    fn is_checked(&self) -> bool;

    /// The races that a checker found; empty without a checker.
    fn races(&self) -> Vec<Race>;

    /// Tells a checker a fact that no call shows. Does nothing without a checker.
    fn hint(&self, note: Hint<'_>);

    /// Begins to trace the device's work with the hardware's own times; `None` if that is not
    /// possible.
    fn begin_trace(&self) -> Option<Box<dyn Trace>>;
}

/// A driver and its tools in one value, as a device is opened with them. Every type that has both
/// traits has this one too.
pub trait DriverWithTools: Driver + Tools {}

impl<D: Driver + Tools> DriverWithTools for D {}
