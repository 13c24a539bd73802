//! Conversion of driver statuses to results.

use super::ffi::CUresult;
use super::loader::{self, Refusal, Status};
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

/// `Ok` if the call of this name succeeded.
#[inline]
pub(super) fn check(call: &'static str, status: CUresult) -> DriverResult<()> {
    if status == CUresult::CUDA_SUCCESS {
        Ok(())
    } else {
        Err(failed(call, status))
    }
}

/// The answer of a query. "Not ready" is an answer, not an error: an error would allocate at each
/// poll.
pub(super) fn is_done(call: &'static str, status: CUresult) -> DriverResult<bool> {
    if status == CUresult::CUDA_ERROR_NOT_READY {
        return Ok(false);
    }
    check(call, status).map(|()| true)
}

#[cold]
fn failed(call: &'static str, status: CUresult) -> DriverError {
    let call = public_name(call);
    if status == CUresult::FORKED && loader::is_child() {
        return Refusal::Forked.error(call);
    }
    DriverError::new(call, ErrorCode(status.0))
}

/// The call's name in CUDA's reference: the symbol without its version.
pub(super) fn public_name(symbol: &'static str) -> &'static str {
    symbol.strip_suffix("_v2").unwrap_or(symbol)
}

/// The same error with a detail added.
pub(super) fn with_detail(error: DriverError, detail: impl Into<String>) -> DriverError {
    let mut detail = detail.into();
    if !error.detail().is_empty() {
        detail = format!("{}; {detail}", error.detail());
    }
    DriverError::with_detail(error.call(), error.code(), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_call_as_the_reference_does() {
        let error = check("cuMemcpyHtoDAsync_v2", CUresult(1)).unwrap_err();
        assert_eq!(error.call(), "cuMemcpyHtoDAsync");
        assert_eq!(error.code(), ErrorCode::INVALID_VALUE);
    }

    #[test]
    fn a_query_that_is_not_ready_is_no_error() {
        let query = |status| is_done("cuStreamQuery", status);
        assert_eq!(query(CUresult::CUDA_ERROR_NOT_READY), Ok(false));
        assert_eq!(query(CUresult::CUDA_SUCCESS), Ok(true));
        assert_eq!(
            query(CUresult(700)).unwrap_err().code(),
            ErrorCode::ILLEGAL_ADDRESS
        );
    }

    #[test]
    fn keeps_codes_that_are_not_known() {
        let error = check("cuEventRecord", CUresult(987_654)).unwrap_err();
        assert_eq!(error.code(), ErrorCode(987_654));
        assert!(error.to_string().contains("987654"), "{error}");
    }

    /// The numbers in `driver/error.rs` are the header's numbers.
    #[test]
    fn codes_have_the_names_of_the_header() {
        use cudarc::driver::sys::CUresult as Header;
        let codes = [
            Header::CUDA_ERROR_INVALID_VALUE,
            Header::CUDA_ERROR_OUT_OF_MEMORY,
            Header::CUDA_ERROR_NOT_INITIALIZED,
            Header::CUDA_ERROR_DEINITIALIZED,
            Header::CUDA_ERROR_STUB_LIBRARY,
            Header::CUDA_ERROR_DEVICE_UNAVAILABLE,
            Header::CUDA_ERROR_NO_DEVICE,
            Header::CUDA_ERROR_INVALID_DEVICE,
            Header::CUDA_ERROR_INVALID_IMAGE,
            Header::CUDA_ERROR_INVALID_CONTEXT,
            Header::CUDA_ERROR_NO_BINARY_FOR_GPU,
            Header::CUDA_ERROR_ECC_UNCORRECTABLE,
            Header::CUDA_ERROR_INVALID_PTX,
            Header::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            Header::CUDA_ERROR_OPERATING_SYSTEM,
            Header::CUDA_ERROR_INVALID_HANDLE,
            Header::CUDA_ERROR_ILLEGAL_STATE,
            Header::CUDA_ERROR_NOT_FOUND,
            Header::CUDA_ERROR_NOT_READY,
            Header::CUDA_ERROR_ILLEGAL_ADDRESS,
            Header::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            Header::CUDA_ERROR_LAUNCH_TIMEOUT,
            Header::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            Header::CUDA_ERROR_ASSERT,
            Header::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            Header::CUDA_ERROR_HARDWARE_STACK_ERROR,
            Header::CUDA_ERROR_ILLEGAL_INSTRUCTION,
            Header::CUDA_ERROR_MISALIGNED_ADDRESS,
            Header::CUDA_ERROR_INVALID_ADDRESS_SPACE,
            Header::CUDA_ERROR_INVALID_PC,
            Header::CUDA_ERROR_LAUNCH_FAILED,
            Header::CUDA_ERROR_TENSOR_MEMORY_LEAK,
            Header::CUDA_ERROR_MPS_CLIENT_TERMINATED,
            Header::CUDA_ERROR_EXTERNAL_DEVICE,
            Header::CUDA_ERROR_NOT_PERMITTED,
            Header::CUDA_ERROR_NOT_SUPPORTED,
            Header::CUDA_ERROR_SYSTEM_NOT_READY,
            Header::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
            Header::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            Header::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            Header::CUDA_ERROR_STREAM_CAPTURE_MERGE,
            Header::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
            Header::CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
            Header::CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
            Header::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            Header::CUDA_ERROR_CAPTURED_EVENT,
            Header::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
            Header::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
            Header::CUDA_ERROR_UNKNOWN,
        ];
        for code in codes {
            assert_eq!(ErrorCode(code as u32).name(), format!("{code:?}"));
        }
    }
}
