//! cuFFT's declarations (`cufft.h`), and the table of its functions.
//!
//! Names and numbers are the header's own. What is an enum there is a number here: a library newer
//! than the header may return a number that no header lists.
#![allow(non_camel_case_types, non_snake_case, reason = "the names are cuFFT's")]

use std::ffi::{c_int, c_longlong, c_void};

use cuda_rt_runtime::driver::DriverResult;
use cuda_rt_runtime::driver_cuda::NvidiaLibrary;
use num_complex::Complex;

use crate::error::{FftError, Result, Status};

#[cfg(test)]
mod bindings;

pub(crate) type cufftHandle = c_int;
pub(crate) type cufftType = c_int;
/// `float2` of the header: two floats.
pub(crate) type cufftComplex = Complex<f32>;
/// `double2` of the header: two doubles.
pub(crate) type cufftDoubleComplex = Complex<f64>;
#[repr(C)]
pub(crate) struct CUstream_st {
    opaque: [u8; 0],
}
pub(crate) type cudaStream_t = *mut CUstream_st;

pub(crate) const CUFFT_FORWARD: c_int = -1;
pub(crate) const CUFFT_INVERSE: c_int = 1;
pub(crate) const CUFFT_C2C: cufftType = 0x29;
pub(crate) const CUFFT_R2C: cufftType = 0x2a;
pub(crate) const CUFFT_C2R: cufftType = 0x2c;
pub(crate) const CUFFT_Z2Z: cufftType = 0x69;
pub(crate) const CUFFT_D2Z: cufftType = 0x6a;
pub(crate) const CUFFT_Z2D: cufftType = 0x6c;

/// Passes the functions of cuFFT that this crate calls to the macro `$expand`.
macro_rules! cufft_functions {
    ($expand:ident) => {
        $expand! {
            since "CUDA 1.0": fn cufftGetVersion(version: *mut c_int);
            since "CUDA 5.0": fn cufftCreate(handle: *mut cufftHandle);
            since "CUDA 1.0": fn cufftDestroy(plan: cufftHandle);
            since "CUDA 5.0": fn cufftSetAutoAllocation(plan: cufftHandle, autoAllocate: c_int);
            since "CUDA 7.5": fn cufftMakePlanMany64(
                plan: cufftHandle,
                rank: c_int,
                n: *mut c_longlong,
                inembed: *mut c_longlong,
                istride: c_longlong,
                idist: c_longlong,
                onembed: *mut c_longlong,
                ostride: c_longlong,
                odist: c_longlong,
                r#type: cufftType,
                batch: c_longlong,
                workSize: *mut usize,
            );
            since "CUDA 5.0": fn cufftSetStream(plan: cufftHandle, stream: cudaStream_t);
            since "CUDA 5.0": fn cufftSetWorkArea(plan: cufftHandle, workArea: *mut c_void);

            since "CUDA 1.0": fn cufftExecC2C(
                plan: cufftHandle, idata: *mut cufftComplex, odata: *mut cufftComplex, direction: c_int,
            );
            since "CUDA 1.0": fn cufftExecR2C(
                plan: cufftHandle, idata: *mut f32, odata: *mut cufftComplex,
            );
            since "CUDA 1.0": fn cufftExecC2R(
                plan: cufftHandle, idata: *mut cufftComplex, odata: *mut f32,
            );
            since "CUDA 2.3": fn cufftExecZ2Z(
                plan: cufftHandle, idata: *mut cufftDoubleComplex, odata: *mut cufftDoubleComplex,
                direction: c_int,
            );
            since "CUDA 2.3": fn cufftExecD2Z(
                plan: cufftHandle, idata: *mut f64, odata: *mut cufftDoubleComplex,
            );
            since "CUDA 2.3": fn cufftExecZ2D(
                plan: cufftHandle, idata: *mut cufftDoubleComplex, odata: *mut f64,
            );
        }
    };
}

/// Declares the table, with a method for each function. A method passes the gate of the driver's
/// calls, and returns the status as a `Result`.
macro_rules! table {
    ($(since $since:literal: fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// Every function of cuFFT that this crate calls.
        pub(crate) struct Cufft {
            library: NvidiaLibrary,
            $( $name: unsafe extern "C" fn($($type),*) -> c_int, )*
        }

        impl Cufft {
            pub(crate) fn of(library: NvidiaLibrary) -> DriverResult<Self> {
                Ok(Self {
                    $(
                        // SAFETY: the type is the function's in `cufft.h`, whose enums are ints:
                        // `bindings` compares them with another crate's.
                        $name: unsafe { library.function(stringify!($name), $since) }?,
                    )*
                    library,
                })
            }

            $(
                /// # Safety
                /// What cuFFT's documentation demands of the call of this name.
                #[allow(clippy::too_many_arguments, reason = "the arguments are cuFFT's")]
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
use cufft_functions;
cufft_functions!(table);

impl Cufft {
    pub(crate) fn name(&self) -> &str {
        self.library.name()
    }

    /// Makes a call in which cuFFT sets up more of itself.
    pub(crate) fn initialise<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> DriverResult<T> {
        self.library.initialising_call(name, call)
    }
}

fn check(during: &'static str, function: &'static str, status: DriverResult<c_int>) -> Result<()> {
    match status.map(Status) {
        Ok(Status::SUCCESS) => Ok(()),
        Ok(status) => Err(FftError::Status {
            during,
            function,
            status,
        }),
        Err(source) => Err(FftError::Library { during, source }),
    }
}
