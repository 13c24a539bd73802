//! [`Call`]: what every operation of the typed API does around its call of the driver.
//!
//! ```text
//!   let call = self.call("Stream::fill");      // a checker reports races where the user called
//!   call.enqueue(kind, label, bytes, |driver, at| unsafe { driver.fill(…, at) })
//!        │                            │
//!        │                            └ a recording is told of the operation
//!        ├ before: refused where an earlier ordering could not be made
//!        └ after: the call's name is added to the driver's error
//! ```
//!
//! What touches no memory goes without: to record an event, to wait for one and to ask something
//! take the call's name in their errors only ([`During`]). So results can be waited for where
//! nothing more may be enqueued.

use std::panic::Location;

use crate::device::core::DeviceCore;
use crate::error::{During, Result};
use crate::order::observer::Operation;
use crate::order::stream_ref::StreamRef;
use cuda_rt_checker::CalledAt;
use cuda_rt_driver::{Driver, DriverResult, Kind, RawStream};

/// One call of the typed API on a stream. Until it is dropped, driver calls of this thread count as
/// made where the user called; without a checker that takes nothing.
#[must_use = "what the call enqueues goes through it"]
pub(crate) struct Call<'a> {
    core: &'a DeviceCore,
    at: StreamRef,
    /// The stream's tag, by which a timeline names it.
    tag: &'static str,
    name: &'static str,
    _site: Option<CalledAt>,
}

impl<'a> Call<'a> {
    /// The call `name` on `at`, a stream of `core` with this tag.
    #[inline]
    #[track_caller]
    pub(crate) fn new(core: &'a DeviceCore, at: StreamRef, tag: &'static str, name: &'static str) -> Self {
        // Not inside the closure, whose caller is this line.
        let site = Location::caller();
        Self {
            core,
            at,
            tag,
            name,
            _site: core.is_checked().then(|| CalledAt::new(site)),
        }
    }

    #[inline]
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The driver, if every earlier ordering was made.
    #[inline]
    pub(crate) fn driver(&self) -> Result<&'a dyn Driver> {
        self.core.ordered().during(self.name)
    }

    /// Does `work` on the stream, if every earlier ordering was made. It takes no engine, so no
    /// recording is told.
    #[inline]
    pub(crate) fn make<T>(&self, work: impl FnOnce(&dyn Driver, RawStream) -> DriverResult<T>) -> Result<T> {
        work(self.driver()?, self.at.raw).during(self.name)
    }

    /// Does `work`, which enqueues one operation on the stream, if every earlier ordering was made,
    /// and tells a recording.
    #[inline]
    pub(crate) fn enqueue(
        &self,
        kind: Kind,
        label: &'static str,
        bytes: usize,
        work: impl FnOnce(&dyn Driver, RawStream) -> DriverResult<()>,
    ) -> Result<()> {
        self.attempt(kind, label, bytes, work)?.during(self.name)
    }

    /// As [`enqueue`](Self::enqueue), for who tells apart what was refused, which is the error, and
    /// what the driver failed at, which is in the value.
    #[inline]
    pub(crate) fn attempt(
        &self,
        kind: Kind,
        label: &'static str,
        bytes: usize,
        work: impl FnOnce(&dyn Driver, RawStream) -> DriverResult<()>,
    ) -> Result<DriverResult<()>> {
        let driver = self.driver()?;
        let operation = Operation {
            kind,
            label,
            bytes: bytes as u64,
        };
        let at = self.at;
        let observed = self.core.observed();
        Ok(observed.operation(at, self.tag, operation, || work(driver, at.raw)))
    }
}
