//! Copies of rows: 2-D and 3-D copies between linear memory.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::SimDevice;
use super::clock::SpanKind;
use super::fault::Call;
use super::memory;
use super::op::Op;
use cuda_rt_driver::{CopyExtent, DeviceAddress, DriverResult, ErrorCode, Pitch, RawStream};

/// The largest pitch of a copy, in bytes (`CU_DEVICE_ATTRIBUTE_MAX_PITCH` of every GPU).
const MAX_PITCH: usize = i32::MAX as usize;

/// A copy of rows.
///
/// # Invariants
/// ROWS-1. On each side that is not given as host memory, all bytes from the first row to the end
/// of the last are in one memory that the device reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    kind: SpanKind,
    destination: (u64, Pitch),
    source: (u64, Pitch),
    extent: CopyExtent,
}

impl Rows {
    pub(super) fn kind(&self) -> SpanKind {
        self.kind
    }

    pub(super) fn label(&self) -> &'static str {
        match self.kind {
            SpanKind::CopyToDevice => "copy to device",
            SpanKind::CopyToHost => "copy to host",
            _ => "copy",
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.extent.bytes()
    }

    /// Copies the rows, and no byte between them.
    pub(super) fn run(&self) {
        let (to, from) = (
            self.extent.rows(self.destination.1),
            self.extent.rows(self.source.1),
        );
        for (to, from) in to.zip(from) {
            let (to, from) = (self.destination.0 + to as u64, self.source.0 + from as u64);
            // SAFETY: ROWS-1 for the device's side: memory of a device stays mapped (CHUNK-1), and
            // managed memory too. The code that enqueued the copy answers for the host's memory,
            // and for the order.
            unsafe { memory::copy(to, from, self.extent.width_bytes) };
        }
    }
}

/// The address of page-locked memory, as copies take it.
pub(super) fn host_address(address: NonNull<c_void>) -> DeviceAddress {
    DeviceAddress(address.as_ptr().expose_provenance() as u64)
}

impl SimDevice {
    /// Enqueues a copy of rows. Like CUDA, it refuses rows that overlap, and a pitch above the
    /// device's greatest.
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
            let fits = |pitch: Pitch| {
                let several_planes = extent.depth > 1;
                (extent.width_bytes..=MAX_PITCH).contains(&pitch.bytes)
                    && !(several_planes && pitch.rows < extent.height)
            };
            let is_device = |side: SpanKind| kind != side;
            let spans = [
                (is_device(SpanKind::CopyToHost), destination),
                (is_device(SpanKind::CopyToDevice), source),
            ];
            let inside = spans.iter().all(|(on_device, (address, pitch))| {
                let bytes = extent.span_bytes(*pitch) as u64;
                !on_device || state.reach(self.device).contains(address.0, bytes)
            });
            if !fits(destination.1) || !fits(source.1) || !inside {
                return Err(state.error(Call::CopyRows, ErrorCode::INVALID_VALUE));
            }
            // ROWS-1 was checked above.
            let rows = Rows {
                kind,
                destination: (destination.0.0, destination.1),
                source: (source.0.0, source.1),
                extent,
            };
            let ranges: [(usize, DeviceAddress); 0] = [];
            state.transfer(
                Call::CopyRows,
                stream,
                &ranges,
                extent.bytes(),
                Op::CopyRows(Box::new(rows)),
            )
        })
    }
}
