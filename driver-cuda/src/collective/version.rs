//! The version of NCCL, and the versions that are refused.

use std::ffi::c_int;

use super::Nccl;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

/// The version in NCCL's own counting (`ncclGetVersion`).
pub(super) fn version_of(nccl: &Nccl) -> DriverResult<u32> {
    let mut version: c_int = 0;
    // SAFETY: the pointer is to a live int.
    let status = unsafe { nccl.ncclGetVersion(&mut version) };
    nccl.check("ncclGetVersion", status)?;
    Ok(version.unsigned_abs())
}

/// NCCL 2.16.5.
const OLDEST: u32 = 21_605;

/// Refuses a version that frees one rank's memory while kernels of other ranks of this process
/// still use it: at the end of a communicator (2.13), or of an aborted one (2.14 and 2.15). NVIDIA
/// mended it in 2.16.2 (`commReclaim` in NCCL's `src/init.cc`), and double frees after an
/// initialisation that failed in 2.16.5.
pub(super) fn check_version(version: u32) -> DriverResult<()> {
    if version >= OLDEST {
        return Ok(());
    }
    let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
    Err(DriverError::with_detail(
        "ncclCommInitAll",
        ErrorCode::NOT_SUPPORTED,
        format!(
            "NCCL {major}.{minor}.{patch} frees memory of one rank that kernels of other ranks still use: \
             install NCCL 2.16.5 or later"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_frees_memory_in_use_is_refused() {
        assert!(check_version(21_605).is_ok() && check_version(22_809).is_ok());
        for (version, name) in [(21_304, "2.13.4"), (21_505, "2.15.5"), (21_604, "2.16.4")] {
            let error = check_version(version).unwrap_err();
            assert_eq!(error.code(), ErrorCode::NOT_SUPPORTED);
            assert!(
                error.detail().starts_with(&format!("NCCL {name} frees")),
                "{error}"
            );
        }
    }
}
