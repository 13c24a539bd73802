//! NCCL's declarations (`nccl.h`), with the NCCL version that introduced each entry point.
#![allow(non_camel_case_types, non_upper_case_globals, reason = "the names are NCCL's")]

use super::types::numbers;

#[repr(C)]
pub(crate) struct ncclComm {
    opaque: [u8; 0],
}
/// One rank of a communicator.
pub(crate) type ncclComm_t = *mut ncclComm;

/// Passes the numbers of NCCL to the macro `$expand`.
macro_rules! nccl_numbers {
    ($expand:ident $($head:tt)*) => { $expand! { $($head)*
        /// The status that every function of NCCL returns, except functions that return text.
        enum ncclResult_t { ncclSuccess = 0, ncclUnhandledCudaError = 1 }

        enum ncclDataType_t {
            ncclInt8 = 0,
            ncclUint8 = 1,
            ncclInt32 = 2,
            ncclUint32 = 3,
            ncclInt64 = 4,
            ncclUint64 = 5,
            ncclFloat32 = 7,
            ncclFloat64 = 8,
        }

        enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 }
    } };
}
#[cfg(test)]
pub(super) use nccl_numbers;

nccl_numbers!(numbers);

/// Passes the entry points of NCCL to the macro `$expand`. The caller must have `ffi` in scope: it
/// names types of [`ffi`](super).
macro_rules! nccl_entry_points {
    ($expand:ident $($head:tt)*) => { $expand! { $($head)*
        since "NCCL 2.3": fn ncclGetVersion(version: *mut c_int);
        since "NCCL 2.0": fn ncclGetErrorString(result: ffi::nccl::ncclResult_t) -> *const c_char;

        since "NCCL 2.0": fn ncclCommInitAll(communicators: *mut ffi::nccl::ncclComm_t, count: c_int, devices: *const c_int);
        since "NCCL 2.0": fn ncclCommDestroy(communicator: ffi::nccl::ncclComm_t);
        since "NCCL 2.4": fn ncclCommAbort(communicator: ffi::nccl::ncclComm_t);
        since "NCCL 2.4": fn ncclCommGetAsyncError(
            communicator: ffi::nccl::ncclComm_t,
            error: *mut ffi::nccl::ncclResult_t,
        );

        since "NCCL 2.0": fn ncclGroupStart();
        since "NCCL 2.0": fn ncclGroupEnd();
        since "NCCL 2.0": fn ncclAllReduce(
            send: *const c_void,
            receive: *mut c_void,
            count: usize,
            number: ffi::nccl::ncclDataType_t,
            operation: ffi::nccl::ncclRedOp_t,
            communicator: ffi::nccl::ncclComm_t,
            stream: ffi::CUstream,
        );
        since "NCCL 2.0": fn ncclReduceScatter(
            send: *const c_void,
            receive: *mut c_void,
            received_count: usize,
            number: ffi::nccl::ncclDataType_t,
            operation: ffi::nccl::ncclRedOp_t,
            communicator: ffi::nccl::ncclComm_t,
            stream: ffi::CUstream,
        );
        since "NCCL 2.2": fn ncclBroadcast(
            send: *const c_void,
            receive: *mut c_void,
            count: usize,
            number: ffi::nccl::ncclDataType_t,
            root: c_int,
            communicator: ffi::nccl::ncclComm_t,
            stream: ffi::CUstream,
        );
        since "NCCL 2.0": fn ncclAllGather(
            send: *const c_void,
            receive: *mut c_void,
            sent_count: usize,
            number: ffi::nccl::ncclDataType_t,
            communicator: ffi::nccl::ncclComm_t,
            stream: ffi::CUstream,
        );
    } };
}
pub(crate) use nccl_entry_points;
