//! How a call is made and told: under one lock if it enqueues, around its wait if it blocks.

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
    /// A call that does not block: made and told under one lock, so that the checker's order is the
    /// stream's.
    ///
    /// A call that was made never fails here: an error of a [`Driver`] says that nothing was
    /// enqueued. Counterexample: a copy to another device was made, and its race with others
    /// reported as its error; its buffer went to the next owner under the copy.
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

    /// A call that enqueues one operation with these accesses.
    #[inline]
    pub(super) fn enqueue<const N: usize>(
        &self,
        at: CallSite,
        stream: RawStream,
        accesses: [(AccessKind, Range<u64>); N],
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

    /// A call that enqueues a kernel, with the accesses of its buffers.
    ///
    /// # Safety
    /// `parameters` has one pointer for each of `kernel.parameters`, to a live value of that size,
    /// if `call` succeeds.
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
            // SAFETY: this function's contract; the call has succeeded.
            unsafe { each_buffer(kernel, parameters, tell) };
        })
    }

    /// A call that ends a capture, also where a race was denied before. `tell` is given its result
    /// if it succeeds; a capture that fails to end is over too.
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

    /// A call that blocks, after which all is over that `contents` gives before it.
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

/// Gives `tell` the accesses of a kernel's buffers.
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
        // SAFETY: the caller's: a live value of that size; addresses and lengths are initialised.
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
