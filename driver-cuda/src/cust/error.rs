//! Conversion of cust's errors to ours.

use cust::error::{CudaError, CudaResult};

use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};
use cuda_rt_driver::{Kernel, LaunchShape};

/// The error of `call`, a `cu*` name.
#[cold]
pub(super) fn error(call: &'static str, error: CudaError) -> DriverError {
    match error {
        CudaError::UnknownError => DriverError::with_detail(
            call,
            ErrorCode::UNKNOWN,
            "the crate cust does not know this error; to see its code, use the `cuda` backend without cust",
        ),
        // An error of cust's own checks, before any call of CUDA.
        CudaError::InvalidMemoryAllocation => DriverError::new(call, ErrorCode::INVALID_VALUE),
        // All other errors have CUDA's numbers.
        known => DriverError::new(call, ErrorCode(known as u32)),
    }
}

#[inline]
pub(super) fn check<T>(call: &'static str, result: CudaResult<T>) -> DriverResult<T> {
    result.map_err(|code| error(call, code))
}

/// Adds the launch's shape to its error.
#[cold]
pub(super) fn explain_launch(error: DriverError, kernel: &Kernel, shape: &LaunchShape) -> DriverError {
    // A sticky error comes from an earlier kernel: this kernel never ran.
    if error.is_sticky() {
        return error;
    }
    let detail = format!(
        "kernel `{}` with grid {:?}, block {:?}, {} bytes of shared memory",
        kernel.name, shape.grid, shape.block, shape.shared_bytes
    );
    DriverError::with_detail(error.call(), error.code(), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_cudas() {
        for (of_cust, code) in [
            (CudaError::InvalidValue, ErrorCode::INVALID_VALUE),
            (CudaError::OutOfMemory, ErrorCode::OUT_OF_MEMORY),
            (CudaError::NoDevice, ErrorCode::NO_DEVICE),
            (CudaError::InvalidContext, ErrorCode::INVALID_CONTEXT),
            (CudaError::InvalidPtx, ErrorCode::INVALID_PTX),
            (CudaError::NotReady, ErrorCode::NOT_READY),
            (CudaError::IllegalAddress, ErrorCode::ILLEGAL_ADDRESS),
            (CudaError::ContextIsDestroyed, ErrorCode::CONTEXT_IS_DESTROYED),
            (CudaError::LaunchFailed, ErrorCode::LAUNCH_FAILED),
            (CudaError::UnknownError, ErrorCode::UNKNOWN),
        ] {
            assert_eq!(error("call", of_cust).code(), code);
        }
    }
}
