//! Matrix products: by cuBLAS, through cudarc's bindings, or by a stand-in on simulated devices.

use std::ffi::c_int;

use cuda_rt::driver::{DeviceAddress, RawStream};
use cuda_rt::{Device, DeviceSlice, Error, Live, ReadBy, Stream, StreamTag, WriteBy};
use cudarc::cublas::sys::{self, cublasHandle_t, cublasOperation_t, cublasStatus_t};

use crate::stand_in;

/// The reason why cuBLAS did not multiply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlasError {
    #[error("{call} returned {status:?}")]
    Call {
        call: &'static str,
        status: cublasStatus_t,
    },
    #[error("no libcublas was found: install NVIDIA's cuBLAS, or put it on the loader's path")]
    Missing,
    #[error(transparent)]
    Runtime(#[from] Error),
}

fn check(call: &'static str, status: cublasStatus_t) -> Result<(), BlasError> {
    match status {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        status => Err(BlasError::Call { call, status }),
    }
}

/// Multiplies on the stream `S`. Each handle of cuBLAS has its own stream and workspace.
pub(crate) struct Blas<S> {
    /// The handle of cuBLAS; `None` on a simulated device.
    handle: Option<Handle>,
    stream: Stream<S>,
}

/// # Invariants
/// BLAS-1. Live until this is dropped, used by one thread at a time, and set to the stream of the
/// [`Blas`] that it is in.
struct Handle(cublasHandle_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: BLAS-1: the handle is live until now. `cublasDestroy` waits for the device, so no
        // work uses the handle's workspace afterwards.
        let _ = unsafe { sys::cublasDestroy_v2(self.0) };
    }
}

/// The product C = A·B, with all matrices stored row by row. C is `rows` × `columns`, A is `rows`
/// × `inner`.
pub(crate) struct Product<'a, P> {
    pub(crate) a: &'a DeviceSlice<f32, P>,
    pub(crate) b: &'a DeviceSlice<f32, P>,
    pub(crate) c: &'a mut DeviceSlice<f32, P>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) inner: usize,
}

impl<S: StreamTag + ReadBy<S> + WriteBy<S>> Blas<S>
where
    S::Device: Live,
{
    pub(crate) fn new(gpu: &Device<S::Device>, stream: &Stream<S>) -> Result<Self, BlasError> {
        let stream = stream.clone();
        if gpu.is_simulated() {
            return Ok(Self { handle: None, stream });
        }
        // SAFETY: loading the library runs its initialisers, which change only the library's own
        // state.
        if !unsafe { sys::is_culib_present() } {
            return Err(BlasError::Missing);
        }
        // SAFETY: creating a handle enqueues no work. The handle keeps the stream, but uses it only
        // in `multiply`, which borrows the stream again.
        let handle = unsafe { stream.foreign("cublasCreate").enqueue(Handle::new) }??;
        Ok(Self {
            handle: Some(handle),
            stream,
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.handle {
            Some(_) => "cublasSgemm",
            None => "its stand-in",
        }
    }

    /// Enqueues the product. Stream-ordered.
    ///
    /// # Panics
    /// If a matrix does not have the given size.
    pub(crate) fn multiply(&self, product: Product<'_, S>) -> Result<(), BlasError> {
        let Product {
            a,
            b,
            c,
            rows,
            columns,
            inner,
        } = product;
        let sizes = [a.len(), b.len(), c.len()];
        assert_eq!(sizes, [rows * inner, inner * columns, rows * columns], "A, B, C");
        let shape =
            [rows, columns, inner].map(|side| c_int::try_from(side).expect("a side that cuBLAS can take"));
        let at = [a.address(), b.address(), c.address()];
        let device = self.stream.device();
        let sgemm = |stream| match &self.handle {
            // SAFETY: the matrices have the shape's lengths, as asserted. `call` below borrows them
            // as the product uses them, on the handle's stream.
            Some(handle) => unsafe { handle.sgemm(at, shape) },
            // SAFETY: the matrices have the shape's lengths, and `call` borrows them, on this
            // stream. Without a handle the device is simulated (`Blas::new`).
            None => unsafe { stand_in::sgemm(device.driver(), at, shape, stream) },
        };
        let call = self.stream.foreign("cublasSgemm").reads(a).reads(b).writes(c);
        // SAFETY: `sgemm` enqueues one product on the given stream. It reads A and B and writes C,
        // in bounds: their lengths were compared with the shape. The handle and its workspace
        // outlive the work (`Handle::drop`). All bit patterns are valid for `f32`.
        unsafe { call.enqueue(sgemm) }?
    }
}

impl Handle {
    /// Makes a handle. The stream's context must be current.
    fn new(stream: RawStream) -> Result<Self, BlasError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a live variable for the handle.
        check("cublasCreate", unsafe { sys::cublasCreate_v2(&mut handle) })?;
        let handle = Self(handle);
        let stream = std::ptr::with_exposed_provenance_mut(stream.0 as usize);
        // SAFETY: the handle was created above, and the stream is live.
        let status = unsafe { sys::cublasSetStream_v2(handle.0, stream) };
        check("cublasSetStream", status)?;
        Ok(handle)
    }

    /// Enqueues C = A·B on the handle's stream.
    ///
    /// # Safety
    /// The work must meet the demands of
    /// [`ForeignCall::enqueue`](cuda_rt::interop::ForeignCall::enqueue), and the matrices must have
    /// this shape.
    ///
    /// # Errors
    /// Errors of cuBLAS.
    unsafe fn sgemm(
        &self,
        [a, b, c]: [DeviceAddress; 3],
        [rows, columns, inner]: [c_int; 3],
    ) -> Result<(), BlasError> {
        const PLAIN: cublasOperation_t = cublasOperation_t::CUBLAS_OP_N;
        let pointer = |at: DeviceAddress| std::ptr::without_provenance_mut::<f32>(at.0 as usize);
        let (one, zero) = (1.0, 0.0);
        // cuBLAS stores matrices column by column. Read so, our matrices are their transposes:
        // Cᵀ = Bᵀ·Aᵀ.
        //
        // SAFETY: BLAS-1: the handle is live. The call reads both factors before it returns. The
        // three matrices have the given shape, by this function's contract.
        let status = unsafe {
            sys::cublasSgemm_v2(
                self.0,
                PLAIN,
                PLAIN,
                columns,
                rows,
                inner,
                &one,
                pointer(b),
                columns,
                pointer(a),
                inner,
                &zero,
                pointer(c),
                columns,
            )
        };
        check("cublasSgemm", status)
    }
}
