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
    let _entered = context.enter()?;
    let mut stream = ptr::null_mut();
    // SAFETY: the pointer is to a live CUstream, and the context is current.
    unsafe {
        context.library().cuStreamCreateWithPriority(
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
    let _entered = context.enter()?;
    // SAFETY: by this function's contract the handle is live and is not used again.
    unsafe { context.library().cuStreamDestroy_v2(handle(stream)) }
}

/// # Safety
/// The handle is live.
pub(super) unsafe fn synchronize(context: &Context, stream: RawStream) -> DriverResult<()> {
    let _entered = context.enter()?;
    // SAFETY: the handle is live.
    unsafe { context.library().cuStreamSynchronize(handle(stream)) }?;
    context.check_lost()
}

/// # Safety
/// The handle is live.
pub(super) unsafe fn query(context: &Context, stream: RawStream) -> DriverResult<bool> {
    let _entered = context.enter()?;
    // SAFETY: the handle is live.
    let status = unsafe { context.library().entries().cuStreamQuery(handle(stream)) };
    let done = is_done("cuStreamQuery", status)?;
    context.check_lost()?;
    Ok(done)
}
