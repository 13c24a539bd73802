//! How a call is made and told: under one lock if it enqueues; before and after its wait if it
//! blocks.

use std::ffi::c_void;
use std::ops::Range;

use super::Checked;
use super::called_at::operation;
use crate::monitor::Monitor;
use cuda_rt_driver::AccessKind;
use cuda_rt_driver::AccessKind::{Read, Write};
use cuda_rt_driver::{CallSite, Driver, DriverResult, RawStream};
use cuda_rt_driver::{Kernel, ParameterKind};

impl<D: Driver + ?Sized> Checked<D> {
    /// Makes a call that does not block, and tells it. Both happen under one lock, so that the
    /// checker sees calls in the stream's order.
    ///
    /// A call that was made never fails here: an error of a [`Driver`] means that nothing was
    /// enqueued. Counterexample: a copy to another device was made, and its race with other work
    /// was returned as its error. The copy's buffer then went to its next owner, under the running
    /// copy.
    #[inline]
    pub(super) fn follow<R>(
        &self,
        call: impl FnOnce(&D) -> DriverResult<R>,
        tell: impl FnOnce(&mut Monitor, &R),
    ) -> DriverResult<R> {
        if self.watch.is_off() {
            return call(&self.inner);
        }
        self.watch.check_denied()?;
        let mut made = None;
        let told = self.watch.enter(|monitor| {
            let result = made.insert(call(&self.inner)?);
            self.watch.tell(monitor, |monitor| tell(monitor, result));
            Ok(())
        });
        match made {
            Some(result) => Ok(result),
            None => Err(told.expect_err("a call that was not made failed")),
        }
    }

    /// Makes a call that enqueues one operation with these accesses.
    #[inline]
    pub(super) fn enqueue(
        &self,
        at: CallSite,
        stream: RawStream,
        accesses: impl IntoIterator<Item = (AccessKind, Range<u64>)>,
        call: impl FnOnce(&D) -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.follow(call, |monitor, ()| {
            let operation = operation(at);
            let begun = monitor.begin(stream.0);
            for (kind, bytes) in accesses {
                monitor.access(begun, bytes, kind, operation);
            }
        })
    }

    /// Makes a call that enqueues a kernel, with the accesses of its buffers.
    ///
    /// # Safety
    /// If `call` succeeds, `parameters` has one pointer for each of `kernel.parameters`, to a live
    /// value of that size.
    #[inline]
    pub(super) unsafe fn follow_launch(
        &self,
        at: CallSite,
        kernel: &'static Kernel,
        parameters: &[*const c_void],
        stream: RawStream,
        call: impl FnOnce(&D) -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.follow(call, |monitor, ()| {
            let operation = operation(at);
            let begun = monitor.begin(stream.0);
            let tell = |bytes, kind| monitor.access(begun, bytes, kind, operation);
            // SAFETY: `tell` runs only after `call` has succeeded, so this function's contract
            // holds for `parameters`.
            unsafe { each_buffer(kernel, parameters, tell) };
        })
    }

    /// Makes a call that ends a capture, even after a race was denied. `tell` gets the call's
    /// result if it succeeded; a capture that fails to end is over too.
    pub(super) fn finish_capture<R>(
        &self,
        call: impl FnOnce(&D) -> DriverResult<R>,
        tell: impl FnOnce(&mut Monitor, Option<&R>),
    ) -> DriverResult<R> {
        if self.watch.is_off() {
            return call(&self.inner);
        }
        let mut ended = None;
        let told = self.watch.enter(|monitor| {
            let ended = ended.insert(call(&self.inner));
            tell(monitor, ended.as_ref().ok());
            Ok(())
        });
        ended.unwrap_or_else(|| Err(told.expect_err("a call that was not made failed")))
    }

    /// Makes a call that blocks. Everything that `contents` returns before the call is done after
    /// it.
    pub(super) fn synchronize(
        &self,
        contents: impl FnOnce(&Monitor) -> crate::VectorClock,
        call: impl FnOnce(&D) -> DriverResult<()>,
    ) -> DriverResult<()> {
        if self.watch.is_off() {
            return call(&self.inner);
        }
        self.watch.check_denied()?;
        let contents = self.watch.enter(|monitor| Ok(contents(monitor)))?;
        call(&self.inner)?;
        self.watch.enter(|monitor| {
            monitor.seen_done(&contents);
            Ok(())
        })
    }
}

/// Calls `tell` with each access of a kernel's buffers.
///
/// # Safety
/// `parameters` has one pointer for each of `kernel.parameters`, to a live value of that size.
pub(super) unsafe fn each_buffer(
    kernel: &'static Kernel,
    parameters: &[*const c_void],
    mut tell: impl FnMut(Range<u64>, AccessKind),
) {
    let word = |i: usize| {
        let is_word = kernel.parameters[i].size_bytes == size_of::<u64>();
        // SAFETY: by this function's contract, a live value of the size just compared. Its bytes
        // are initialised: it is an address or a length.
        is_word.then(|| unsafe { parameters[i].cast::<u64>().read_unaligned() })
    };
    for (i, pair) in kernel.parameters.windows(2).enumerate() {
        let (kind, element_bytes) = match pair[0].kind {
            ParameterKind::Read { element_bytes } => (Read, element_bytes),
            ParameterKind::Write { element_bytes } => (Write, element_bytes),
            _ => continue,
        };
        if pair[1].kind == ParameterKind::Length
            && let (Some(address), Some(elements)) = (word(i), word(i + 1))
        {
            let bytes = elements.saturating_mul(element_bytes as u64);
            tell(address..address.saturating_add(bytes), kind);
        }
    }
}
