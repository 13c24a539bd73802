//! Copies and fills of one device, in stream order.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::calls::group;
use crate::{CopyExtent, DeviceAddress, DriverResult, Pitch, RawStream};

group! {
    /// Copies from and to the device, within it, and fills.
    pub trait Copies, forwarded by $copy_calls {
        /// Copies `bytes` of page-locked host memory to the device, in stream order
        /// (`cuMemcpyHtoDAsync`).
        ///
        /// # Safety
        /// Both ranges are live, in bounds, and not in conflict with any unordered access until the
        /// copy is done.
        unsafe fn copy_to_device(
            &self,
            destination: DeviceAddress,
            source: NonNull<c_void>,
            bytes: usize,
            stream: RawStream,
        ) -> DriverResult<()>;

        /// Copies `bytes` of device memory to page-locked host memory, in stream order
        /// (`cuMemcpyDtoHAsync`).
        ///
        /// # Safety
        /// As [`copy_to_device`](Self::copy_to_device).
        unsafe fn copy_to_host(
            &self,
            destination: NonNull<c_void>,
            source: DeviceAddress,
            bytes: usize,
            stream: RawStream,
        ) -> DriverResult<()>;

        /// Copies `bytes` within the device, in stream order (`cuMemcpyDtoDAsync`). The ranges do
        /// not overlap.
        ///
        /// # Safety
        /// As [`copy_to_device`](Self::copy_to_device).
        unsafe fn copy(
            &self,
            destination: DeviceAddress,
            source: DeviceAddress,
            bytes: usize,
            stream: RawStream,
        ) -> DriverResult<()>;

        /// Copies rows of page-locked host memory to the device, in stream order
        /// (`cuMemcpy2DAsync`; `cuMemcpy3DAsync` for several planes). Without bytes it makes no
        /// call. The bytes between the rows are neither read nor written.
        ///
        /// # Safety
        /// As [`copy_to_device`](Self::copy_to_device), for the rows of both sides. Each side's
        /// rows lie in one allocation.
        unsafe fn copy_rows_to_device(
            &self,
            destination: (DeviceAddress, Pitch),
            source: (NonNull<c_void>, Pitch),
            extent: CopyExtent,
            stream: RawStream,
        ) -> DriverResult<()>;

        /// Copies rows of device memory to page-locked host memory, as
        /// [`copy_rows_to_device`](Self::copy_rows_to_device) does in the other direction.
        ///
        /// # Safety
        /// As [`copy_rows_to_device`](Self::copy_rows_to_device).
        unsafe fn copy_rows_to_host(
            &self,
            destination: (NonNull<c_void>, Pitch),
            source: (DeviceAddress, Pitch),
            extent: CopyExtent,
            stream: RawStream,
        ) -> DriverResult<()>;

        /// Copies rows within the device, as [`copy_rows_to_device`](Self::copy_rows_to_device)
        /// does to it. No row of one side overlaps a row of the other.
        ///
        /// # Safety
        /// As [`copy_rows_to_device`](Self::copy_rows_to_device).
        unsafe fn copy_rows(
            &self,
            destination: (DeviceAddress, Pitch),
            source: (DeviceAddress, Pitch),
            extent: CopyExtent,
            stream: RawStream,
        ) -> DriverResult<()>;

        /// Writes `pattern` (1 byte or more) `count` times, one after another, in stream order
        /// (`cuMemsetD8Async`, `cuMemsetD16Async`, `cuMemsetD32Async`, and their 2-D forms for
        /// longer patterns). `destination` may have any alignment: elements of 4 bytes may need an
        /// alignment of 2 only.
        ///
        /// # Safety
        /// As [`copy_to_device`](Self::copy_to_device).
        unsafe fn fill(
            &self,
            destination: DeviceAddress,
            pattern: &[u8],
            count: usize,
            stream: RawStream,
        ) -> DriverResult<()>;
    }
}
