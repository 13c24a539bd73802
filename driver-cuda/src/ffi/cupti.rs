//! CUPTI's declarations (`cupti_activity.h`, `cupti_result.h`).
//!
//! Of the records only the beginning is declared that all known versions share: each version so far
//! has added to the end of the one before it.
#![allow(non_camel_case_types, reason = "the names are CUPTI's")]

use std::ffi::c_char;

use super::CUcontext;
use super::types::numbers;

/// Gives the numbers of CUPTI to the macro `$expand`.
macro_rules! cupti_numbers {
    ($expand:ident $($head:tt)*) => { $expand! { $($head)*
        /// What every function of CUPTI returns.
        enum CUptiResult { CUPTI_SUCCESS = 0 }

        /// What a record is of.
        enum CUpti_ActivityKind {
            CUPTI_ACTIVITY_KIND_MEMCPY = 1,
            CUPTI_ACTIVITY_KIND_MEMSET = 2,
            CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
        }

        enum CUpti_ActivityFlag { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 }

        /// Which way a copy goes.
        enum CUpti_ActivityMemcpyKind {
            CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
            CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
        }
    } };
}
#[cfg(test)]
pub(super) use cupti_numbers;

cupti_numbers!(numbers);

/// Asks for a buffer: gives where it starts, its size in bytes, and how many records it may take at
/// most.
pub(crate) type CUpti_BuffersCallbackRequestFunc = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Hands over a buffer: the context and stream (both unused), where it starts, its size and how
/// much of it is records, in bytes.
pub(crate) type CUpti_BuffersCallbackCompleteFunc =
    unsafe extern "C" fn(CUcontext, u32, *mut u8, usize, usize);

/// Gives the entry points of CUPTI to the macro `$expand`. Types of [`ffi`](super) are named by
/// `ffi` where that is called. All are in each version whose records are known (CUDA 11.8 and
/// later).
macro_rules! cupti_entry_points {
    ($expand:ident $($head:tt)*) => { $expand! { $($head)*
        since "CUDA 11.8": fn cuptiActivityRegisterCallbacks(
            request: ffi::cupti::CUpti_BuffersCallbackRequestFunc,
            complete: ffi::cupti::CUpti_BuffersCallbackCompleteFunc,
        );
        since "CUDA 11.8": fn cuptiActivityEnable(kind: ffi::cupti::CUpti_ActivityKind);
        since "CUDA 11.8": fn cuptiActivityDisable(kind: ffi::cupti::CUpti_ActivityKind);
        since "CUDA 11.8": fn cuptiActivityFlushAll(flag: u32);
        since "CUDA 11.8": fn cuptiActivityGetNextRecord(
            buffer: *mut u8,
            valid_bytes: usize,
            record: *mut *mut ffi::cupti::CUpti_Activity,
        );
        since "CUDA 11.8": fn cuptiGetVersion(version: *mut u32);
        since "CUDA 11.8": fn cuptiGetTimestamp(ns: *mut u64);
        since "CUDA 11.8": fn cuptiGetContextId(context: ffi::CUcontext, id: *mut u32);
        since "CUDA 11.8": fn cuptiGetStreamIdEx(
            context: ffi::CUcontext,
            stream: ffi::CUstream,
            per_thread: u8,
            id: *mut u32,
        );
    } };
}
pub(crate) use cupti_entry_points;

/// What all records begin with.
#[repr(C, align(8))]
pub(crate) struct CUpti_Activity {
    pub(crate) kind: CUpti_ActivityKind,
}

/// What copies and fills have in common, in every version of CUPTI since 5.5
/// (`CUpti_ActivityMemcpy`, `CUpti_ActivityMemset` and those that followed).
#[repr(C, packed(8))]
pub(crate) struct Transfer {
    pub(crate) kind: CUpti_ActivityKind,
    /// The first byte says which way a copy goes; of a fill it is the value.
    pub(crate) way: [u8; 4],
    pub(crate) bytes: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) correlation: u32,
}

/// What kernels have in common since CUPTI 9.0 (`CUpti_ActivityKernel4` and those that followed).
#[repr(C, packed(8))]
pub(crate) struct Launch {
    pub(crate) kind: CUpti_ActivityKind,
    pub(crate) configuration: [u32; 3],
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) shape: [i32; 8],
    pub(crate) local_memory: [u32; 2],
    pub(crate) correlation: u32,
    pub(crate) grid_id: i64,
    pub(crate) name: *const c_char,
}
