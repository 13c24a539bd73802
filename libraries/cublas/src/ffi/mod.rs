//! cuBLAS' declarations (`cublas_api.h`, `library_types.h`), and the table of its functions.
//!
//! Names and numbers are the headers' own. What is an enum there is a number here: a library newer
//! than the headers may return a number that no header lists.
#![allow(non_camel_case_types, non_snake_case, reason = "the names are cuBLAS'")]

use std::ffi::{c_int, c_longlong, c_void};

use cuda_rt_runtime::driver::DriverResult;
use cuda_rt_runtime::driver_cuda::NvidiaLibrary;

use crate::error::{BlasError, Result, Status};

#[cfg(test)]
mod bindings;

#[repr(C)]
pub(crate) struct cublasContext {
    opaque: [u8; 0],
}
pub(crate) type cublasHandle_t = *mut cublasContext;
#[repr(C)]
pub(crate) struct CUstream_st {
    opaque: [u8; 0],
}
pub(crate) type cudaStream_t = *mut CUstream_st;
pub(crate) type cublasOperation_t = c_int;
pub(crate) type cublasFillMode_t = c_int;
pub(crate) type cublasDiagType_t = c_int;
pub(crate) type cublasSideMode_t = c_int;
pub(crate) type cublasPointerMode_t = c_int;
pub(crate) type cublasComputeType_t = c_int;
pub(crate) type cublasGemmAlgo_t = c_int;
pub(crate) type cudaDataType = c_int;

pub(crate) const CUBLAS_OP_N: cublasOperation_t = 0;
pub(crate) const CUBLAS_OP_T: cublasOperation_t = 1;
pub(crate) const CUBLAS_FILL_MODE_LOWER: cublasFillMode_t = 0;
pub(crate) const CUBLAS_FILL_MODE_UPPER: cublasFillMode_t = 1;
pub(crate) const CUBLAS_DIAG_NON_UNIT: cublasDiagType_t = 0;
pub(crate) const CUBLAS_DIAG_UNIT: cublasDiagType_t = 1;
pub(crate) const CUBLAS_SIDE_LEFT: cublasSideMode_t = 0;
pub(crate) const CUBLAS_SIDE_RIGHT: cublasSideMode_t = 1;
pub(crate) const CUBLAS_POINTER_MODE_HOST: cublasPointerMode_t = 0;
pub(crate) const CUBLAS_POINTER_MODE_DEVICE: cublasPointerMode_t = 1;
pub(crate) const CUBLAS_GEMM_DEFAULT: cublasGemmAlgo_t = -1;
pub(crate) const CUBLAS_COMPUTE_32F: cublasComputeType_t = 68;
pub(crate) const CUBLAS_COMPUTE_64F: cublasComputeType_t = 70;
pub(crate) const CUBLAS_COMPUTE_32I: cublasComputeType_t = 72;
pub(crate) const CUBLAS_COMPUTE_32F_FAST_TF32: cublasComputeType_t = 77;
pub(crate) const CUDA_R_32F: cudaDataType = 0;
pub(crate) const CUDA_R_64F: cudaDataType = 1;
#[cfg(feature = "half")]
pub(crate) const CUDA_R_16F: cudaDataType = 2;
pub(crate) const CUDA_R_8I: cudaDataType = 3;
pub(crate) const CUDA_R_32I: cudaDataType = 10;
#[cfg(feature = "half")]
pub(crate) const CUDA_R_16BF: cudaDataType = 14;

/// Passes the functions of cuBLAS that this crate calls to the macro `$expand`.
macro_rules! cublas_functions {
    ($expand:ident) => { $expand! {
        since "CUDA 4.0": fn cublasCreate_v2(handle: *mut cublasHandle_t);
        since "CUDA 4.0": fn cublasGetVersion_v2(handle: cublasHandle_t, version: *mut c_int);
        since "CUDA 4.0": fn cublasSetStream_v2(handle: cublasHandle_t, stream: cudaStream_t);
        since "CUDA 11.0": fn cublasSetWorkspace_v2(handle: cublasHandle_t, workspace: *mut c_void, bytes: usize);
        since "CUDA 4.0": fn cublasSetPointerMode_v2(
            handle: cublasHandle_t, mode: cublasPointerMode_t,
        );

        since "CUDA 8.0": fn cublasGemmEx(
            handle: cublasHandle_t,
            transa: cublasOperation_t,
            transb: cublasOperation_t,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            A: *const c_void,
            Atype: cudaDataType,
            lda: c_int,
            B: *const c_void,
            Btype: cudaDataType,
            ldb: c_int,
            beta: *const c_void,
            C: *mut c_void,
            Ctype: cudaDataType,
            ldc: c_int,
            compute: cublasComputeType_t,
            algo: cublasGemmAlgo_t,
        );
        since "CUDA 9.1": fn cublasGemmStridedBatchedEx(
            handle: cublasHandle_t,
            transa: cublasOperation_t,
            transb: cublasOperation_t,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            A: *const c_void,
            Atype: cudaDataType,
            lda: c_int,
            strideA: c_longlong,
            B: *const c_void,
            Btype: cudaDataType,
            ldb: c_int,
            strideB: c_longlong,
            beta: *const c_void,
            C: *mut c_void,
            Ctype: cudaDataType,
            ldc: c_int,
            strideC: c_longlong,
            batchCount: c_int,
            compute: cublasComputeType_t,
            algo: cublasGemmAlgo_t,
        );
        since "CUDA 9.1": fn cublasGemmBatchedEx(
            handle: cublasHandle_t,
            transa: cublasOperation_t,
            transb: cublasOperation_t,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            Aarray: *const *const c_void,
            Atype: cudaDataType,
            lda: c_int,
            Barray: *const *const c_void,
            Btype: cudaDataType,
            ldb: c_int,
            beta: *const c_void,
            Carray: *const *mut c_void,
            Ctype: cudaDataType,
            ldc: c_int,
            batchCount: c_int,
            compute: cublasComputeType_t,
            algo: cublasGemmAlgo_t,
        );

        since "CUDA 4.0": fn cublasSgemv_v2(
            handle: cublasHandle_t, trans: cublasOperation_t, m: c_int, n: c_int,
            alpha: *const f32, A: *const f32, lda: c_int, x: *const f32, incx: c_int,
            beta: *const f32, y: *mut f32, incy: c_int,
        );
        since "CUDA 4.0": fn cublasDgemv_v2(
            handle: cublasHandle_t, trans: cublasOperation_t, m: c_int, n: c_int,
            alpha: *const f64, A: *const f64, lda: c_int, x: *const f64, incx: c_int,
            beta: *const f64, y: *mut f64, incy: c_int,
        );
        since "CUDA 4.0": fn cublasStrsm_v2(
            handle: cublasHandle_t, side: cublasSideMode_t, uplo: cublasFillMode_t,
            trans: cublasOperation_t, diag: cublasDiagType_t, m: c_int, n: c_int,
            alpha: *const f32, A: *const f32, lda: c_int, B: *mut f32, ldb: c_int,
        );
        since "CUDA 4.0": fn cublasDtrsm_v2(
            handle: cublasHandle_t, side: cublasSideMode_t, uplo: cublasFillMode_t,
            trans: cublasOperation_t, diag: cublasDiagType_t, m: c_int, n: c_int,
            alpha: *const f64, A: *const f64, lda: c_int, B: *mut f64, ldb: c_int,
        );
        since "CUDA 4.0": fn cublasSaxpy_v2(
            handle: cublasHandle_t, n: c_int, alpha: *const f32, x: *const f32, incx: c_int,
            y: *mut f32, incy: c_int,
        );
        since "CUDA 4.0": fn cublasDaxpy_v2(
            handle: cublasHandle_t, n: c_int, alpha: *const f64, x: *const f64, incx: c_int,
            y: *mut f64, incy: c_int,
        );
        since "CUDA 4.0": fn cublasSscal_v2(
            handle: cublasHandle_t, n: c_int, alpha: *const f32, x: *mut f32, incx: c_int,
        );
        since "CUDA 4.0": fn cublasDscal_v2(
            handle: cublasHandle_t, n: c_int, alpha: *const f64, x: *mut f64, incx: c_int,
        );
        since "CUDA 4.0": fn cublasSdot_v2(
            handle: cublasHandle_t, n: c_int, x: *const f32, incx: c_int, y: *const f32,
            incy: c_int, result: *mut f32,
        );
        since "CUDA 4.0": fn cublasDdot_v2(
            handle: cublasHandle_t, n: c_int, x: *const f64, incx: c_int, y: *const f64,
            incy: c_int, result: *mut f64,
        );
        since "CUDA 4.0": fn cublasSnrm2_v2(
            handle: cublasHandle_t, n: c_int, x: *const f32, incx: c_int, result: *mut f32,
        );
        since "CUDA 4.0": fn cublasDnrm2_v2(
            handle: cublasHandle_t, n: c_int, x: *const f64, incx: c_int, result: *mut f64,
        );
    } };
}

/// Declares the table, with a method for each function. A method passes the gate of the driver's
/// calls, and returns the status as a `Result`.
macro_rules! table {
    ($(since $since:literal: fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// Every function of cuBLAS that this crate calls.
        pub(crate) struct Cublas {
            library: NvidiaLibrary,
            $( $name: unsafe extern "C" fn($($type),*) -> c_int, )*
        }

        impl Cublas {
            pub(crate) fn of(library: NvidiaLibrary) -> DriverResult<Self> {
                Ok(Self {
                    $(
                        // SAFETY: the type is the function's in `cublas_api.h`, whose enums are
                        // ints: `bindings` compares them with another crate's.
                        $name: unsafe { library.function(stringify!($name), $since) }?,
                    )*
                    library,
                })
            }

            $(
                /// # Safety
                /// What cuBLAS' documentation demands of the call of this name.
                #[allow(clippy::too_many_arguments, reason = "the arguments are cuBLAS'")]
                #[inline]
                pub(crate) unsafe fn $name(&self, during: &'static str, $($argument: $type),*) -> Result<()> {
                    let call = || {
                        // SAFETY: this method's contract is the call's own contract.
                        unsafe { (self.$name)($($argument),*) }
                    };
                    check(during, stringify!($name), self.library.call(stringify!($name), call))
                }
            )*
        }
    };
}

#[cfg(test)]
use cublas_functions;
cublas_functions!(table);

impl Cublas {
    pub(crate) fn name(&self) -> &str {
        self.library.name()
    }

    /// Makes a call in which cuBLAS sets up more of itself.
    pub(crate) fn initialise<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> DriverResult<T> {
        self.library.initialising_call(name, call)
    }
}

fn check(during: &'static str, function: &'static str, status: DriverResult<c_int>) -> Result<()> {
    match status.map(Status) {
        Ok(Status::SUCCESS) => Ok(()),
        Ok(status) => Err(BlasError::Status {
            during,
            function,
            status,
        }),
        Err(source) => Err(BlasError::Library { during, source }),
    }
}
