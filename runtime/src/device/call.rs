//! [`Call`]: the steps of every operation of the typed API around its call of the driver.
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
//! A call that touches no memory needs no [`Call`]: a record, a wait or a query of an event only
//! adds its name to its errors ([`During`]). So a program can still wait for results after the
//! device takes no more work.

use std::panic::Location;

use crate::device::core::DeviceCore;
use crate::error::{During, Result};
use crate::memory::DeviceBlock;
use crate::order::observer::Operation;
use crate::order::stream_ref::StreamRef;
use cuda_rt_driver::{CalledAt, Driver, DriverResult, Kind, RawStream};

/// One call of the typed API on a stream. While the value lives, a checker attributes this thread's
/// driver calls to the user's line. Without a checker this costs nothing.
#[must_use = "what the call enqueues goes through it"]
pub(crate) struct Call<'a> {
    core: &'a DeviceCore,
    at: StreamRef,
    /// The stream's tag, which a timeline shows as the stream's name.
    tag: &'static str,
    name: &'static str,
    _site: Option<CalledAt>,
}

impl<'a> Call<'a> {
    /// Begins the call `name` on `at`, a stream of `core` with this tag.
    #[inline]
    #[track_caller]
    pub(crate) fn new(core: &'a DeviceCore, at: StreamRef, tag: &'static str, name: &'static str) -> Self {
        // Taken outside the closure: inside it, the caller would be this line.
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

    /// Allocates `bytes` bytes (more than 0) for the stream, if every earlier ordering was made.
    #[inline]
    pub(crate) fn alloc(&self, bytes: usize) -> Result<DeviceBlock> {
        self.core.check().during(self.name)?;
        self.core.memory().alloc(bytes, self.at).during(self.name)
    }

    /// The driver, if every earlier ordering was made.
    #[inline]
    pub(crate) fn driver(&self) -> Result<&'a dyn Driver> {
        self.core.ordered().during(self.name)
    }

    /// Does `work` on the stream, if every earlier ordering was made. The work occupies no engine
    /// of the GPU, so no recording is told.
    #[inline]
    pub(crate) fn make<T>(&self, work: impl FnOnce(&dyn Driver, RawStream) -> DriverResult<T>) -> Result<T> {
        let driver = self.driver()?;
        self.at.enqueue(|at| work(driver, at)).during(self.name)
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

    /// Like [`enqueue`](Self::enqueue), but tells two failures apart. The outer error says that the
    /// call was refused before the driver saw it, the inner error that the driver's call failed.
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
        // The closure owns what it needs: without an observer it then stays in registers.
        Ok(observed.operation(at, self.tag, operation, move || at.enqueue(|at| work(driver, at))))
    }
}
