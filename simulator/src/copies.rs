//! Copies as the calls enqueue them: between device memory and page-locked memory, and of rows.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::SimDevice;
use super::clock::SpanKind;
use super::fault::Call;
use super::op::Op;
use super::rows::Rows;
use cuda_rt_driver::{CopyExtent, DeviceAddress, DriverResult, ErrorCode, Pitch, RawStream};

/// The address of page-locked memory, as copies take it.
pub(super) fn host_address(address: NonNull<c_void>) -> DeviceAddress {
    DeviceAddress(address.as_ptr().expose_provenance() as u64)
}

impl SimDevice {
    /// Enqueues a copy. The device must reach each side that `kind` does not place on the host.
    pub(super) fn copy_of(
        &self,
        (call, kind): (Call, SpanKind),
        destination: DeviceAddress,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let op = Op::Copy {
            kind,
            destination: destination.0,
            source: source.0,
            bytes,
        };
        let (to, from) = ((self.device, destination), (self.device, source));
        let on_device = match kind {
            SpanKind::CopyToDevice => &[to][..],
            SpanKind::CopyToHost => &[from],
            _ => &[to, from],
        };
        self.enter(call, |state| state.transfer(call, stream, on_device, bytes, op))
    }

    /// Enqueues a copy of rows.
    pub(super) fn copy_rows_of(
        &self,
        kind: SpanKind,
        destination: (DeviceAddress, Pitch),
        source: (DeviceAddress, Pitch),
        extent: CopyExtent,
        stream: RawStream,
    ) -> DriverResult<()> {
        self.enter(Call::CopyRows, |state| {
            if extent.bytes() == 0 {
                return state.stream(Call::CopyRows, stream).map(drop);
            }
            let reach = state.reach(self.device);
            let Some(rows) = Rows::new(kind, destination, source, extent, &reach) else {
                return Err(state.error(Call::CopyRows, ErrorCode::INVALID_VALUE));
            };
            let op = Op::CopyRows(Box::new(rows));
            state.transfer(Call::CopyRows, stream, &[], extent.bytes(), op)
        })
    }
}
