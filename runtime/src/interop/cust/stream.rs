//! Streams of cust for this crate, and streams of this crate for cust.

use std::mem::MaybeUninit;
use std::ptr;

use cust::sys;

use crate::device::Device;
use crate::device::core::DeviceCore;
use crate::error::{During, Error, Result};
use crate::interop::{Adopted, ForeignCall};
use crate::stream::Stream;
use crate::tag::{Live, StreamTag};
use cuda_rt_driver::{Backend, DriverError, DriverResult, ErrorCode, RawStream};
use cuda_rt_driver_cuda::CudaDriver;
use cuda_rt_driver_cuda::cust::handles;

/// The result of a raw call. Cust's own conversion loses the error code.
pub(super) fn check(call: &'static str, status: sys::CUresult) -> DriverResult<()> {
    match status as u32 {
        0 => Ok(()),
        code => Err(DriverError::new(call, ErrorCode(code))),
    }
}

/// The driver of the device's primary context, on a GPU.
pub(super) fn cuda(core: &DeviceCore) -> DriverResult<std::sync::Arc<CudaDriver>> {
    let properties = core.driver().properties();
    if properties.backend == Backend::Simulated {
        return Err(DriverError::with_detail(
            "cuInit",
            ErrorCode::NOT_SUPPORTED,
            "the device is simulated, which cust knows nothing of",
        ));
    }
    CudaDriver::open(properties.ordinal)
}

/// Refuses a stream that [`Device::adopt_stream`] may not be given.
fn check_stream(core: &DeviceCore, stream: &cust::stream::Stream) -> DriverResult<RawStream> {
    let refuse = |call, why| Err(DriverError::with_detail(call, ErrorCode::INVALID_HANDLE, why));
    let driver = cuda(core)?;
    let raw = stream.as_inner();
    if raw.addr() <= 2 {
        return refuse("cuStreamGetCtx", "it is the default stream");
    }
    let mut context = ptr::null_mut();
    // SAFETY: the stream is borrowed, so it is live, and the pointer is to a live CUcontext.
    check("cuStreamGetCtx", unsafe {
        sys::cuStreamGetCtx(raw, &mut context)
    })?;
    if context.addr() != driver.context_handle() {
        return refuse(
            "cuStreamGetCtx",
            "the stream is of another context than the device's primary one",
        );
    }
    let mut status = MaybeUninit::<u32>::zeroed();
    // SAFETY: the stream is live, and the pointer is to a live `u32`, which has the size of a
    // status.
    let asked = unsafe { sys::cuStreamIsCapturing(raw, status.as_mut_ptr().cast()) };
    check("cuStreamIsCapturing", asked)?;
    // SAFETY: the memory was zeroed, and every bit pattern is a `u32`.
    if unsafe { status.assume_init() } != 0 {
        return refuse("cuStreamIsCapturing", "the stream is being captured");
    }
    Ok(RawStream(raw.expose_provenance() as u64))
}

impl<D: Live> Device<D> {
    /// Runs `body` with a stream of cust as a stream of this crate, for kernels, copies and
    /// handoffs. Work that cust enqueues there, before, during or after `body`, is in the same
    /// order.
    ///
    /// Unlike [`adopt_stream`](Self::adopt_stream) the call is safe. The stream is borrowed, so it
    /// is live until `body` returns. The call asks CUDA that the stream is of this device's primary
    /// context and is not being captured.
    ///
    /// # Hazards prevented
    /// [H23](crate::hazards#h23), and the hazards of every stream: between cust's stream and
    /// others, memory moves through handoffs.
    ///
    /// # Errors
    /// The errors of `body`, and [`Error::Driver`] if the stream cannot be adopted, or the device
    /// is simulated.
    pub fn adopt_cust_stream<T, E: From<Error>>(
        &self,
        stream: &cust::stream::Stream,
        body: impl for<'id> FnOnce(&Stream<Adopted<'id, D>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let raw = check_stream(self.core(), stream).during("Device::adopt_cust_stream")?;
        // SAFETY: `check_stream` found a stream of the primary context, which is no default stream
        // and is not being captured. The stream is borrowed until `body` returns. Cust has no call
        // that begins a capture, so a capture takes `unsafe` code.
        unsafe { self.adopt_stream(raw, body) }
    }
}

impl<S: StreamTag> ForeignCall<'_, S> {
    /// Like [`enqueue`](Self::enqueue), with the stream as a stream of cust.
    ///
    /// # Safety
    /// As for [`enqueue`](Self::enqueue).
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue), and [`Error::Driver`] on a simulated device; `body` has
    /// then not run.
    #[track_caller]
    pub unsafe fn enqueue_cust<O>(self, body: impl FnOnce(&cust::stream::Stream) -> O) -> Result<O> {
        cuda(self.core()).during("ForeignCall::enqueue_cust")?;
        let body = |raw: RawStream| {
            // SAFETY: the stream lives while the call borrows it.
            let stream = unsafe { handles::stream(ptr::with_exposed_provenance_mut(raw.0 as usize)) };
            body(&stream)
        };
        // SAFETY: the contract of `enqueue` is the same.
        unsafe { self.enqueue(body) }
    }
}
