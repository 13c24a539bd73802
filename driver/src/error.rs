use std::fmt;

/// An error code of CUDA (`CUresult`) or of NCCL (`ncclResult_t`), with its name and meaning. A
/// code of NCCL is stored with 1,000,000 added.
///
/// ```
/// use cuda_rt_driver::ErrorCode;
///
/// assert_eq!(ErrorCode::OUT_OF_MEMORY.name(), "CUDA_ERROR_OUT_OF_MEMORY");
/// println!("{}", ErrorCode::OUT_OF_MEMORY.meaning()); // a sentence for a reader
/// assert!(ErrorCode::LAUNCH_FAILED.is_sticky()); // the context is lost
/// assert_ne!(ErrorCode::nccl(2), ErrorCode(2)); // codes of NCCL count apart
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! codes {
    ($($code:literal $constant:ident $name:literal $sticky:literal $meaning:literal;)*) => {
        impl ErrorCode {
            $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] pub const $constant: Self = Self($code);)*

            fn known(self) -> Option<(&'static str, bool, &'static str)> {
                match self.0 { $($code => Some(($name, $sticky, $meaning)),)* _ => None }
            }
        }
    };
}

codes! {
    1 INVALID_VALUE "CUDA_ERROR_INVALID_VALUE" false "an argument is out of range";
    2 OUT_OF_MEMORY "CUDA_ERROR_OUT_OF_MEMORY" false "there is not enough free memory (of the device, or page-lockable memory of the host)";
    3 NOT_INITIALIZED "CUDA_ERROR_NOT_INITIALIZED" false "the CUDA driver is not initialised";
    4 DEINITIALIZED "CUDA_ERROR_DEINITIALIZED" true "the CUDA driver is shutting down";
    34 STUB_LIBRARY "CUDA_ERROR_STUB_LIBRARY" false "the library loaded is a stub, not the driver";
    46 DEVICE_UNAVAILABLE "CUDA_ERROR_DEVICE_UNAVAILABLE" false "the device is busy or reserved by another process";
    100 NO_DEVICE "CUDA_ERROR_NO_DEVICE" false "the driver sees no GPU";
    101 INVALID_DEVICE "CUDA_ERROR_INVALID_DEVICE" false "no device has that ordinal";
    200 INVALID_IMAGE "CUDA_ERROR_INVALID_IMAGE" false "the module is not a valid image";
    201 INVALID_CONTEXT "CUDA_ERROR_INVALID_CONTEXT" false "no context is current, or it is not valid";
    209 NO_BINARY_FOR_GPU "CUDA_ERROR_NO_BINARY_FOR_GPU" false "the module holds no code for this GPU";
    214 ECC_UNCORRECTABLE "CUDA_ERROR_ECC_UNCORRECTABLE" true "an uncorrectable memory error was found";
    218 INVALID_PTX "CUDA_ERROR_INVALID_PTX" false "the driver could not compile the PTX";
    222 UNSUPPORTED_PTX_VERSION "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" false "the PTX is newer than the driver";
    226 CONTAINED "CUDA_ERROR_CONTAINED" true "a kernel hit a hardware error, which was contained";
    304 OPERATING_SYSTEM "CUDA_ERROR_OPERATING_SYSTEM" false "a call of the operating system failed";
    400 INVALID_HANDLE "CUDA_ERROR_INVALID_HANDLE" false "a handle is not valid in this context";
    401 ILLEGAL_STATE "CUDA_ERROR_ILLEGAL_STATE" false "an object the call needs is in a state that does not allow it";
    500 NOT_FOUND "CUDA_ERROR_NOT_FOUND" false "the named symbol was not found";
    600 NOT_READY "CUDA_ERROR_NOT_READY" false "the work is not done yet";
    700 ILLEGAL_ADDRESS "CUDA_ERROR_ILLEGAL_ADDRESS" true "a kernel used an address that is not mapped";
    701 LAUNCH_OUT_OF_RESOURCES "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" false "a block needs more registers or shared memory than the device has";
    702 LAUNCH_TIMEOUT "CUDA_ERROR_LAUNCH_TIMEOUT" true "a kernel ran longer than the display allows";
    709 CONTEXT_IS_DESTROYED "CUDA_ERROR_CONTEXT_IS_DESTROYED" true "other code destroyed the context";
    710 ASSERT "CUDA_ERROR_ASSERT" true "a kernel panicked or failed an assertion; the driver printed the place to standard error";
    712 HOST_MEMORY_ALREADY_REGISTERED "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" false "the host memory is registered already";
    714 HARDWARE_STACK_ERROR "CUDA_ERROR_HARDWARE_STACK_ERROR" true "a kernel's stack was corrupted";
    715 ILLEGAL_INSTRUCTION "CUDA_ERROR_ILLEGAL_INSTRUCTION" true "a kernel ran an illegal instruction";
    716 MISALIGNED_ADDRESS "CUDA_ERROR_MISALIGNED_ADDRESS" true "a kernel used a misaligned address";
    717 INVALID_ADDRESS_SPACE "CUDA_ERROR_INVALID_ADDRESS_SPACE" true "a kernel used an address of another kind of memory";
    718 INVALID_PC "CUDA_ERROR_INVALID_PC" true "a kernel jumped to an invalid place";
    719 LAUNCH_FAILED "CUDA_ERROR_LAUNCH_FAILED" true "a kernel trapped: it panicked, or used memory that it may not access";
    721 TENSOR_MEMORY_LEAK "CUDA_ERROR_TENSOR_MEMORY_LEAK" true "a kernel ended without freeing its tensor memory";
    800 NOT_PERMITTED "CUDA_ERROR_NOT_PERMITTED" false "the call is not permitted here";
    801 NOT_SUPPORTED "CUDA_ERROR_NOT_SUPPORTED" false "the device does not support this";
    802 SYSTEM_NOT_READY "CUDA_ERROR_SYSTEM_NOT_READY" false "the system's GPU services are not running";
    803 SYSTEM_DRIVER_MISMATCH "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" false "the driver's kernel module and library are of different versions";
    810 MPS_CLIENT_TERMINATED "CUDA_ERROR_MPS_CLIENT_TERMINATED" true "the MPS server ended this process's use of the GPU";
    900 STREAM_CAPTURE_UNSUPPORTED "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" false "the call cannot be captured";
    901 STREAM_CAPTURE_INVALIDATED "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" false "an earlier error ended the capture";
    902 STREAM_CAPTURE_MERGE "CUDA_ERROR_STREAM_CAPTURE_MERGE" false "the wait would join two captures";
    903 STREAM_CAPTURE_UNMATCHED "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" false "the capture did not begin on this stream";
    904 STREAM_CAPTURE_UNJOINED "CUDA_ERROR_STREAM_CAPTURE_UNJOINED" false "a stream forked in the capture was not joined";
    905 STREAM_CAPTURE_ISOLATION "CUDA_ERROR_STREAM_CAPTURE_ISOLATION" false "the capture would depend on work outside it";
    906 STREAM_CAPTURE_IMPLICIT "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" false "the capture would depend on the legacy default stream";
    907 CAPTURED_EVENT "CUDA_ERROR_CAPTURED_EVENT" false "the event was last recorded in a capture";
    908 STREAM_CAPTURE_WRONG_THREAD "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" false "the capture began on another thread";
    910 GRAPH_EXEC_UPDATE_FAILURE "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" false "the graph cannot be updated to this without a new instantiation";
    911 EXTERNAL_DEVICE "CUDA_ERROR_EXTERNAL_DEVICE" true "a device outside of CUDA signalled an error";
    1_000_001 NCCL_UNHANDLED_CUDA_ERROR "ncclUnhandledCudaError" false "a CUDA call of NCCL failed";
    1_000_002 NCCL_SYSTEM_ERROR "ncclSystemError" false "a call of NCCL to the operating system failed";
    1_000_003 NCCL_INTERNAL_ERROR "ncclInternalError" false "an internal check of NCCL failed: a bug of NCCL, or corrupted memory";
    1_000_004 NCCL_INVALID_ARGUMENT "ncclInvalidArgument" false "an argument is out of range";
    1_000_005 NCCL_INVALID_USAGE "ncclInvalidUsage" false "invalid use of NCCL, for example a device listed twice or an aborted communicator";
    1_000_006 NCCL_REMOTE_ERROR "ncclRemoteError" false "another rank failed, or is gone";
    1_000_007 NCCL_IN_PROGRESS "ncclInProgress" false "an operation of the communicator is still in progress";
    1_000_008 NCCL_TIMEOUT "ncclTimeout" false "an operation of NCCL took too long";
    999 UNKNOWN "CUDA_ERROR_UNKNOWN" true "the driver gives no reason";
}

impl ErrorCode {
    /// Makes the code from NCCL's number.
    pub fn nccl(code: u32) -> Self {
        Self(Self::NCCL.saturating_add(code))
    }

    const NCCL: u32 = 1_000_000;

    /// The code's number in its own library.
    fn number(self) -> u32 {
        self.0.checked_sub(Self::NCCL).unwrap_or(self.0)
    }

    /// The code's name in CUDA or NCCL.
    pub fn name(self) -> &'static str {
        self.known().map_or("an unlisted error", |k| k.0)
    }

    /// Whether this code means that the context is lost: every later call fails too, and the
    /// process cannot get the GPU back.
    pub fn is_sticky(self) -> bool {
        self.known().is_some_and(|k| k.1)
    }

    /// What the code means, in a few words.
    pub fn meaning(self) -> &'static str {
        self.known().map_or(
            "see CUresult in the CUDA driver API reference, or ncclResult_t in NCCL's",
            |k| k.2,
        )
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

/// A failed driver call: its name, its code, and the reason where it is known.
///
/// All text is resolved when the error is made; formatting it calls nothing.
///
/// ```
/// use cuda_rt_driver::{DriverError, ErrorCode};
///
/// let error = DriverError::new("cuMemAllocAsync", ErrorCode::OUT_OF_MEMORY);
/// assert_eq!((error.call(), error.code()), ("cuMemAllocAsync", ErrorCode::OUT_OF_MEMORY));
/// assert!(!error.is_sticky()); // other calls still succeed
/// let why = DriverError::with_detail("cuModuleLoadData", ErrorCode(218), "ptxas: syntax error");
/// assert_eq!(why.detail(), "ptxas: syntax error");
/// println!("{why}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError(Box<Failure>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    call: &'static str,
    code: ErrorCode,
    detail: String,
}

impl DriverError {
    /// An error of `call` (a `cu*` name).
    pub fn new(call: &'static str, code: ErrorCode) -> Self {
        Self::with_detail(call, code, String::new())
    }

    /// As [`new`](Self::new), with a detail: the kernel's name, the missing symbol, the compiler's
    /// log.
    pub fn with_detail(call: &'static str, code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Failure {
            call,
            code,
            detail: detail.into(),
        }))
    }

    /// The `cu*` call that failed.
    pub fn call(&self) -> &'static str {
        self.0.call
    }

    /// The error code of the call.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// More about the failure; may be empty.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Whether the context is lost: every later call fails too, and the process cannot get the GPU
    /// back.
    pub fn is_sticky(&self) -> bool {
        self.0.code.is_sticky()
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { call, code, detail } = &*self.0;
        write!(f, "{call} failed: {} ({})", code.name(), code.number())?;
        // The meaning of `UNKNOWN` is that there is no reason, and a detail is one.
        if *code != ErrorCode::UNKNOWN || detail.is_empty() {
            write!(f, ": {}", code.meaning())?;
        }
        if !detail.is_empty() {
            write!(f, ": {detail}")?;
        }
        if self.is_sticky() {
            write!(f, "; the device is lost to this process")?;
        }
        Ok(())
    }
}

impl std::error::Error for DriverError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_takes_the_place_of_the_meaning_that_there_is_no_reason() {
        let text = |code, detail| DriverError::with_detail("cuCtxSynchronize", code, detail).to_string();
        assert_eq!(
            text(ErrorCode::UNKNOWN, "boom"),
            "cuCtxSynchronize failed: CUDA_ERROR_UNKNOWN (999): boom; the device is lost to this process"
        );
        assert!(text(ErrorCode::UNKNOWN, "").contains(": the driver gives no reason;"));
        assert!(text(ErrorCode::NOT_FOUND, "`x`").ends_with(": the named symbol was not found: `x`"));
    }
}
