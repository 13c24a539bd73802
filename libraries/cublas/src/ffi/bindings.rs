//! Compares the declarations with cudarc's bindings, which bindgen made from NVIDIA's headers.
//!
//! The compiler does the comparison: if this module compiles, each function has the same arguments.
//! Two types are the same if both are the same type of number, pointers to the same type, or a
//! number here and an enum of the same size there.

use std::ffi::c_void;

use cudarc::cublas::sys;

use super::*;

/// A type that passes to C exactly as `Theirs` does.
trait Same<Theirs> {}

impl<A: Same<B>, B> Same<*mut B> for *mut A {}
impl<A: Same<B>, B> Same<*const B> for *const A {}

macro_rules! same {
    ($($ours:ty = $theirs:ty),* $(,)?) => { $(
        impl Same<$theirs> for $ours {}
        const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());
    )* };
}

same!(
    c_void = c_void,
    c_int = c_int,
    c_longlong = c_longlong,
    usize = usize,
    f32 = f32,
    f64 = f64,
    cublasContext = sys::cublasContext,
    c_int = sys::cublasOperation_t,
    c_int = sys::cublasFillMode_t,
    c_int = sys::cublasDiagType_t,
    c_int = sys::cublasSideMode_t,
    c_int = sys::cublasPointerMode_t,
    c_int = sys::cublasComputeType_t,
    c_int = sys::cublasGemmAlgo_t,
    c_int = sys::cudaDataType,
    c_int = sys::cublasStatus_t,
    // Handles of streams, which are pointers to one struct of CUDA's.
    cudaStream_t = sys::cudaStream_t,
);

/// A function with the same arguments and result as `Theirs`.
trait SameFunction<Theirs> {}

/// Compiles if `Ours` is the same function as the argument.
const fn same_function<Ours: SameFunction<Theirs>, Theirs: Copy>(_: Theirs) {}

/// Makes functions comparable, by the names of their arguments' types.
macro_rules! functions {
    ($($a:ident $b:ident)*) => {
        impl<$($a: Same<$b>, $b),*> SameFunction<unsafe fn($($b),*) -> sys::cublasStatus_t>
            for unsafe extern "C" fn($($a),*) -> c_int
        {
        }
    };
}

functions!(A0 B0);
functions!(A0 B0 A1 B1);
functions!(A0 B0 A1 B1 A2 B2);
functions!(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4);
functions!(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6);
functions!(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6 A7 B7 A8 B8 A9 B9 A10 B10 A11 B11);
functions!(
    A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6 A7 B7 A8 B8 A9 B9 A10 B10 A11 B11 A12 B12 A13 B13 A14 B14
    A15 B15 A16 B16 A17 B17 A18 B18
);
functions!(
    A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6 A7 B7 A8 B8 A9 B9 A10 B10 A11 B11 A12 B12 A13 B13 A14 B14
    A15 B15 A16 B16 A17 B17 A18 B18 A19 B19
);
functions!(
    A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6 A7 B7 A8 B8 A9 B9 A10 B10 A11 B11 A12 B12 A13 B13 A14 B14
    A15 B15 A16 B16 A17 B17 A18 B18 A19 B19 A20 B20 A21 B21 A22 B22
);

macro_rules! same_functions {
    (@any $type:ty) => { _ };
    ($(since $since:literal: fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => { $(
        const _: () = same_function::<
            unsafe extern "C" fn($($type),*) -> c_int,
            unsafe fn($(same_functions!(@any $type)),*) -> _,
        >(sys::$name);
    )* };
}

cublas_functions!(same_functions);

macro_rules! same_numbers {
    ($($type:ident: $($name:ident)*;)*) => { $($(
        const _: () = assert!(sys::$type::$name as i32 == $name);
    )*)* };
}

same_numbers! {
    cublasOperation_t: CUBLAS_OP_N CUBLAS_OP_T;
    cublasFillMode_t: CUBLAS_FILL_MODE_LOWER CUBLAS_FILL_MODE_UPPER;
    cublasDiagType_t: CUBLAS_DIAG_NON_UNIT CUBLAS_DIAG_UNIT;
    cublasSideMode_t: CUBLAS_SIDE_LEFT CUBLAS_SIDE_RIGHT;
    cublasPointerMode_t: CUBLAS_POINTER_MODE_HOST CUBLAS_POINTER_MODE_DEVICE;
    cublasGemmAlgo_t: CUBLAS_GEMM_DEFAULT;
    cublasComputeType_t:
        CUBLAS_COMPUTE_32F CUBLAS_COMPUTE_64F CUBLAS_COMPUTE_32I CUBLAS_COMPUTE_32F_FAST_TF32;
    cudaDataType: CUDA_R_32F CUDA_R_64F CUDA_R_8I CUDA_R_32I;
}
#[cfg(feature = "half")]
same_numbers! { cudaDataType: CUDA_R_16F CUDA_R_16BF; }

#[test]
fn statuses_have_the_names_of_the_header() {
    for status in [
        sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS,
        sys::cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED,
        sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED,
        sys::cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE,
        sys::cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH,
        sys::cublasStatus_t::CUBLAS_STATUS_MAPPING_ERROR,
        sys::cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED,
        sys::cublasStatus_t::CUBLAS_STATUS_INTERNAL_ERROR,
        sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
        sys::cublasStatus_t::CUBLAS_STATUS_LICENSE_ERROR,
    ] {
        assert_eq!(Status(status as i32).name(), format!("{status:?}"));
    }
}
