//! Copies of rows: 2-D and 3-D copies between linear memory.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use super::context::Context;
use super::{ffi, stream};
use cuda_rt_driver::{CopyExtent, DeviceAddress, DriverResult, Pitch, RawStream};

/// One side of a copy: memory, and the distances between its rows.
#[derive(Clone, Copy)]
pub(super) struct Side {
    kind: ffi::CUmemorytype,
    host: *mut c_void,
    device: ffi::CUdeviceptr,
    pitch: Pitch,
}

impl Side {
    pub(super) fn host((address, pitch): (NonNull<c_void>, Pitch)) -> Self {
        Self {
            kind: ffi::CUmemorytype::CU_MEMORYTYPE_HOST,
            host: address.as_ptr(),
            device: 0,
            pitch,
        }
    }

    pub(super) fn device((address, pitch): (DeviceAddress, Pitch)) -> Self {
        Self {
            kind: ffi::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            host: null_mut(),
            device: address.0,
            pitch,
        }
    }
}

/// Enqueues a copy of rows. Without bytes it makes no call: an empty buffer's address is dangling,
/// and CUDA must not see it.
///
/// # Safety
/// As [`Copies::copy_rows_to_device`](cuda_rt_driver::Copies::copy_rows_to_device), for these
/// sides.
pub(super) unsafe fn copy(
    context: &Context,
    to: Side,
    from: Side,
    extent: CopyExtent,
    stream: RawStream,
) -> DriverResult<()> {
    if extent.bytes() == 0 {
        return Ok(());
    }
    let stream = stream::handle(stream);
    if extent.depth == 1 {
        let copy = plane(to, from, extent);
        // SAFETY: by this function's contract the rows of both sides are live and in bounds, and
        // the stream is live. The call reads `copy` before it returns.
        return context.enqueue("cuMemcpy2DAsync", |library| unsafe {
            library.cuMemcpy2DAsync_v2(&copy, stream)
        });
    }
    let copy = planes(to, from, extent);
    // SAFETY: as above.
    context.enqueue("cuMemcpy3DAsync", |library| unsafe {
        library.cuMemcpy3DAsync_v2(&copy, stream)
    })
}

fn plane(to: Side, from: Side, extent: CopyExtent) -> ffi::CUDA_MEMCPY2D {
    ffi::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: from.kind,
        srcHost: from.host,
        srcDevice: from.device,
        srcArray: null_mut(),
        srcPitch: from.pitch.bytes,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: to.kind,
        dstHost: to.host,
        dstDevice: to.device,
        dstArray: null_mut(),
        dstPitch: to.pitch.bytes,
        WidthInBytes: extent.width_bytes,
        Height: extent.height,
    }
}

fn planes(to: Side, from: Side, extent: CopyExtent) -> ffi::CUDA_MEMCPY3D {
    ffi::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: from.kind,
        srcHost: from.host,
        srcDevice: from.device,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: from.pitch.bytes,
        srcHeight: from.pitch.rows,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: to.kind,
        dstHost: to.host,
        dstDevice: to.device,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: to.pitch.bytes,
        dstHeight: to.pitch.rows,
        WidthInBytes: extent.width_bytes,
        Height: extent.height,
        Depth: extent.depth,
    }
}
