//! Streams.

use std::ptr;

use super::context::Context;
use super::error::is_done;
use super::ffi::{self, CUstream_flags};
use cuda_rt_driver::{DriverResult, RawStream};

/// The stream's handle in CUDA's type.
#[inline]
pub(super) fn handle(stream: RawStream) -> ffi::CUstream {
    ptr::with_exposed_provenance_mut(stream.0 as usize)
}

pub(super) fn create(
    context: &Context,
    priority: i32,
    (least_urgent, most_urgent): (i32, i32),
) -> DriverResult<RawStream> {
    let entered = context.enter()?;
    let mut stream = ptr::null_mut();
    // SAFETY: the pointer is to a live CUstream, and the context is current.
    unsafe {
        entered.library().cuStreamCreateWithPriority(
            &mut stream,
            CUstream_flags::CU_STREAM_NON_BLOCKING.0,
            // Not `clamp`, which would panic if a driver reported an empty range.
            priority.min(least_urgent).max(most_urgent),
        )
    }?;
    Ok(RawStream(stream.expose_provenance() as u64))
}

/// # Safety
/// As [`Streams::destroy_stream`](cuda_rt_driver::Streams::destroy_stream).
pub(super) unsafe fn destroy(context: &Context, stream: RawStream) -> DriverResult<()> {
    let entered = context.enter()?;
    // SAFETY: by this function's contract the handle is live and is not used again.
    unsafe { entered.library().cuStreamDestroy_v2(handle(stream)) }
}

/// # Safety
/// The handle is live.
pub(super) unsafe fn synchronize(context: &Context, stream: RawStream) -> DriverResult<()> {
    let entered = context.enter()?;
    // SAFETY: the handle is live.
    unsafe { entered.library().cuStreamSynchronize(handle(stream)) }?;
    context.check_lost()
}

/// # Safety
/// The handle is live.
pub(super) unsafe fn query(context: &Context, stream: RawStream) -> DriverResult<bool> {
    let entered = context.enter()?;
    // SAFETY: the handle is live.
    let status = unsafe { entered.library().entries().cuStreamQuery(handle(stream)) };
    let done = is_done("cuStreamQuery", status)?;
    context.check_lost()?;
    Ok(done)
}
