//! The functions of `events.rs` where the feature `tracing` is off: none does anything.

use crate::order::stream_ref::StreamId;
use cuda_rt_driver::{Driver, DriverError, Properties};

/// Keeps nothing back: there are no events.
#[derive(Debug)]
pub(crate) struct Later;

#[inline(always)]
pub(crate) fn later() -> Later {
    Later
}

#[inline(always)]
pub(crate) fn opened(_: &Properties) {}

#[inline(always)]
pub(crate) fn stream_created(_: &dyn Driver, _: StreamId, _: i32) {}

#[inline(always)]
pub(crate) fn pool_grown(_: &dyn Driver, _: &'static str, _: usize, _: usize) {}

pub(crate) struct Reserved;

#[inline(always)]
pub(crate) fn reserved(_: &dyn Driver) -> Reserved {
    Reserved
}

impl Reserved {
    #[inline(always)]
    pub(crate) fn told(self, _: &dyn Driver) {}
}

#[inline(always)]
pub(crate) fn pool_trimmed(_: &dyn Driver, _: &'static str, _: usize) {}

#[inline(always)]
pub(crate) fn failed(_: &'static str, _: &DriverError) {}

#[inline(always)]
pub(crate) fn refused(_: &'static str, _: &DriverError) {}

#[derive(Debug, Default)]
pub(crate) struct SlowWait;

impl SlowWait {
    #[inline(always)]
    pub(crate) fn around<T>(&self, _: StreamId, wait: impl FnOnce() -> T) -> T {
        wait()
    }
}
