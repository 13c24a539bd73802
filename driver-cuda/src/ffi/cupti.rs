//! CUPTI's declarations (`cupti_activity.h`, `cupti_result.h`).
//!
//! Of each record only the beginning is declared, which all known versions share: each version so
//! far has only added fields to the end.
#![allow(non_camel_case_types, reason = "the names are CUPTI's")]

use std::ffi::c_char;

use super::CUcontext;
use super::types::numbers;

/// Passes the numbers of CUPTI to the macro `$expand`.
macro_rules! cupti_numbers {
    ($expand:ident $($head:tt)*) => { $expand! { $($head)*
        /// The status that every function of CUPTI returns.
        enum CUptiResult { CUPTI_SUCCESS = 0, CUPTI_ERROR_NOT_INITIALIZED = 15 }

        /// The kind of a record.
        enum CUpti_ActivityKind {
            CUPTI_ACTIVITY_KIND_MEMCPY = 1,
            CUPTI_ACTIVITY_KIND_MEMSET = 2,
            CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
        }

        enum CUpti_ActivityFlag { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 }

        /// The direction of a copy.
        enum CUpti_ActivityMemcpyKind {
            CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
            CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
        }
    } };
}
#[cfg(test)]
pub(super) use cupti_numbers;

cupti_numbers!(numbers);

/// The callback by which CUPTI asks for a buffer. It returns the buffer's start, its size in bytes,
/// and the most records that it may hold.
pub(crate) type CUpti_BuffersCallbackRequestFunc = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// The callback by which CUPTI hands over a buffer. It gets the context and stream (both unused),
/// the buffer's start, its size, and the size of its records, in bytes.
pub(crate) type CUpti_BuffersCallbackCompleteFunc =
    unsafe extern "C" fn(CUcontext, u32, *mut u8, usize, usize);

/// Passes the entry points of CUPTI to the macro `$expand`. The caller must have `ffi` in scope: it
/// names types of [`ffi`](super). Every version with known records (CUDA 11.8 and later) has all
/// entry points.
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

/// The beginning of every record.
#[repr(C, align(8))]
pub(crate) struct CUpti_Activity {
    pub(crate) kind: CUpti_ActivityKind,
}

/// The common beginning of copies and fills, in every version of CUPTI since 5.5
/// (`CUpti_ActivityMemcpy`, `CUpti_ActivityMemset` and their successors).
#[repr(C, packed(8))]
pub(crate) struct Transfer {
    pub(crate) kind: CUpti_ActivityKind,
    /// In a copy the first byte is the direction; in a fill the field is the value.
    pub(crate) way: [u8; 4],
    pub(crate) bytes: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) correlation: u32,
}

/// The common beginning of kernels since CUPTI 9.0 (`CUpti_ActivityKernel4` and its successors).
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
