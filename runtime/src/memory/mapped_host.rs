//! The host's use of memory that the driver maps: managed and write-combined memory.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::device::core::DeviceCore;
use crate::error::{During, Result};
use cuda_rt_driver::process::Kept;
use cuda_rt_driver::{AccessKind, CallSite, DriverError, DriverResult, ErrorCode, Hint};

/// The bytes that the host uses, how it uses them, and by which call.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostUse {
    pub(super) address: NonNull<c_void>,
    pub(super) bytes: usize,
    pub(super) access: AccessKind,
    pub(super) passed: CallSite,
}

/// Keeps memory that CUDA mapped from children of `fork`: a signal ends a child that uses it, also
/// one that was forked inside of [`while_mapped`].
///
/// # Safety
/// As [`Kept::new`].
pub(super) unsafe fn keep(address: NonNull<c_void>, bytes: usize) -> DriverResult<Kept> {
    // SAFETY: the same contract.
    unsafe { Kept::new(address.as_ptr(), bytes) }.map_err(|error| {
        let detail = format!("{bytes} bytes could not be kept from children of `fork`: {error}");
        DriverError::with_detail("pthread_atfork", ErrorCode::OPERATING_SYSTEM, detail)
    })
}

/// Runs `body` while the memory stays mapped: the exit handlers of CUDA wait for it. Tells a
/// checker of the access.
///
/// # Errors
/// [`Error::Driver`](crate::Error::Driver) if the process ends, or was forked from the one that
/// opened the device; `body` has not run then.
pub(super) fn while_mapped<O>(core: &DeviceCore, used: HostUse, body: impl FnOnce() -> O) -> Result<O> {
    let HostUse {
        address,
        bytes,
        access,
        passed,
    } = used;
    // A signal would end a child that uses the pages.
    core.managed().check_process().during(passed.during)?;
    if bytes > 0 {
        core.tools().hint(Hint::HostAccess {
            address,
            bytes,
            access,
            passed,
        });
    }
    let (body, output) = (Cell::new(Some(body)), Cell::new(None));
    let run = || {
        if let Some(body) = body.take() {
            output.set(Some(body()));
        }
    };
    core.driver().while_mapped(&run).during(passed.during)?;
    // A driver that keeps its contract has run the closure.
    let not_run = || DriverError::new("while_mapped", ErrorCode::ILLEGAL_STATE);
    output.into_inner().ok_or_else(not_run).during(passed.during)
}
