//! Events.

use std::ptr;

use super::context::Context;
use super::error::is_done;
use super::ffi::{self, CUevent_flags};
use super::stream;
use cuda_rt_driver::{DriverResult, RawEvent, RawStream};

#[inline]
fn handle(event: RawEvent) -> ffi::CUevent {
    ptr::with_exposed_provenance_mut(event.0 as usize)
}

pub(super) fn create(context: &Context, timing: bool) -> DriverResult<RawEvent> {
    let flags = if timing {
        CUevent_flags::CU_EVENT_DEFAULT
    } else {
        CUevent_flags::CU_EVENT_DISABLE_TIMING
    };
    let entered = context.enter()?;
    let mut event = ptr::null_mut();
    // SAFETY: the pointer is to a live CUevent, and the context is current.
    unsafe { entered.library().cuEventCreate(&mut event, flags.0) }?;
    Ok(RawEvent(event.expose_provenance() as u64))
}

/// # Safety
/// As [`Events::destroy_event`](cuda_rt_driver::Events::destroy_event).
pub(super) unsafe fn destroy(context: &Context, event: RawEvent) -> DriverResult<()> {
    let entered = context.enter()?;
    // SAFETY: by this function's contract the handle is live and is not used again.
    unsafe { entered.library().cuEventDestroy_v2(handle(event)) }
}

/// # Safety
/// Both handles are live.
#[inline]
pub(super) unsafe fn record(context: &Context, event: RawEvent, stream: RawStream) -> DriverResult<()> {
    let (event, stream) = (handle(event), stream::handle(stream));
    // SAFETY: the handles are live.
    context.enqueue("cuEventRecord", |library| unsafe {
        library.cuEventRecord(event, stream)
    })
}

/// # Safety
/// Both handles are live.
#[inline]
pub(super) unsafe fn wait(context: &Context, stream: RawStream, event: RawEvent) -> DriverResult<()> {
    const NO_FLAGS: u32 = 0;
    let (event, stream) = (handle(event), stream::handle(stream));
    // SAFETY: the handles are live.
    context.enqueue("cuStreamWaitEvent", |library| unsafe {
        library.cuStreamWaitEvent(stream, event, NO_FLAGS)
    })
}

/// # Safety
/// The handle is live.
#[inline]
pub(super) unsafe fn query(context: &Context, event: RawEvent) -> DriverResult<bool> {
    let entered = context.enter()?;
    // SAFETY: the handle is live.
    let status = unsafe { entered.library().entries().cuEventQuery(handle(event)) };
    let done = is_done("cuEventQuery", status)?;
    context.check_lost()?;
    Ok(done)
}

/// # Safety
/// The handle is live.
#[inline]
pub(super) unsafe fn synchronize(context: &Context, event: RawEvent) -> DriverResult<()> {
    let entered = context.enter()?;
    // SAFETY: the handle is live.
    unsafe { entered.library().cuEventSynchronize(handle(event)) }?;
    context.check_lost()
}

/// # Safety
/// As [`Events::elapsed_ms`](cuda_rt_driver::Events::elapsed_ms).
pub(super) unsafe fn elapsed_ms(context: &Context, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
    let entered = context.enter()?;
    let mut milliseconds = 0.0;
    // SAFETY: the pointer is to a live float, and the handles are live.
    unsafe {
        entered
            .library()
            .cuEventElapsedTime(&mut milliseconds, handle(start), handle(end))
    }?;
    Ok(milliseconds)
}
