//! Statuses of driver calls.

use super::ffi::CUresult;
use crate::driver::{DriverError, DriverResult, ErrorCode};

/// Whether the call of this name succeeded.
#[inline]
pub(super) fn check(call: &'static str, status: CUresult) -> DriverResult<()> {
    if status == CUresult::CUDA_SUCCESS {
        Ok(())
    } else {
        Err(failed(call, status))
    }
}

#[cold]
fn failed(call: &'static str, status: CUresult) -> DriverError {
    DriverError::new(public_name(call), ErrorCode(status.0))
}

/// The name by which the reference lists a call: without the version of its symbol.
fn public_name(symbol: &'static str) -> &'static str {
    symbol.strip_suffix("_v2").unwrap_or(symbol)
}

/// The same error, saying more.
pub(super) fn with_detail(error: DriverError, detail: impl Into<String>) -> DriverError {
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
    fn keeps_codes_that_are_not_known() {
        let error = check("cuEventRecord", CUresult(987_654)).unwrap_err();
        assert_eq!(error.code(), ErrorCode(987_654));
        assert!(error.to_string().contains("987654"), "{error}");
    }
}
