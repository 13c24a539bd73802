//! cuBLAS through cudarc's bindings, or what stands in for it.

use std::ffi::c_int;

use cuda_rt::driver::{DeviceAddress, RawStream};
use cuda_rt::{Device, DeviceSlice, Error, Live, ReadBy, Stream, StreamTag, WriteBy};
use cudarc::cublas::sys::{self, cublasHandle_t, cublasOperation_t, cublasStatus_t};

use crate::stand_in;

/// Why cuBLAS did nothing.
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

/// Who multiplies on the stream `S`: cuBLAS keeps a stream and a workspace with each handle.
pub(crate) struct Blas<S> {
    /// `None` on a simulated device.
    handle: Option<Handle>,
    stream: Stream<S>,
}

/// # Invariants
/// BLAS-1. Live until this is dropped, used by one thread at a time, and set to the stream of the
/// [`Blas`] that it is in.
struct Handle(cublasHandle_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: BLAS-1. It waits for the device, so that no work uses the handle's workspace any
        // more.
        let _ = unsafe { sys::cublasDestroy_v2(self.0) };
    }
}

/// C = A·B, all stored row by row: C is `rows` × `columns`, A is `rows` × `inner`.
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
        // SAFETY: loading the library runs its initialisers, which set up its own state only.
        if !unsafe { sys::is_culib_present() } {
            return Err(BlasError::Missing);
        }
        // SAFETY: it enqueues no work. The handle keeps the stream, and uses it in `multiply` only,
        // where it is given again.
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

    /// Enqueues the product.
    ///
    /// # Panics
    /// If a matrix has not the size that is given.
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
            // SAFETY: matrices of that shape, borrowed as they are used, for the handle's stream.
            Some(handle) => unsafe { handle.sgemm(at, shape) },
            // SAFETY: as above, for this stream.
            None => unsafe { stand_in::sgemm(device.driver(), at, shape, stream) },
        };
        let call = self.stream.foreign("cublasSgemm").reads(a).reads(b).writes(c);
        // SAFETY: one product on the stream that it is given, which reads A and B and writes C, in
        // bounds: their lengths were compared with the shape. The handle and its workspace outlive
        // the work (`Handle::drop`). Any bits are an `f32`.
        unsafe { call.enqueue(sgemm) }?
    }
}

impl Handle {
    /// With the stream's context current.
    fn new(stream: RawStream) -> Result<Self, BlasError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a live handle variable.
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
    /// As [`ForeignCall::enqueue`](cuda_rt::interop::ForeignCall::enqueue) demands of the work; the
    /// matrices have that shape.
    ///
    /// # Errors
    /// Those of cuBLAS.
    unsafe fn sgemm(
        &self,
        [a, b, c]: [DeviceAddress; 3],
        [rows, columns, inner]: [c_int; 3],
    ) -> Result<(), BlasError> {
        const PLAIN: cublasOperation_t = cublasOperation_t::CUBLAS_OP_N;
        let pointer = |at: DeviceAddress| std::ptr::without_provenance_mut::<f32>(at.0 as usize);
        let (one, zero) = (1.0, 0.0);
        // cuBLAS counts column by column, in which our matrices are their transposes: Cᵀ = Bᵀ·Aᵀ.
        // SAFETY: BLAS-1; the factors are read before it returns, and the caller answers for the
        // matrices.
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
