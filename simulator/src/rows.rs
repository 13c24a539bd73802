//! Copies of rows: 2-D and 3-D copies between linear memory.

use super::clock::SpanKind;
use super::memory;
use super::reach::Reach;
use cuda_rt_driver::{CopyExtent, DeviceAddress, Pitch};

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
    /// The copy, if the device can do it. Like CUDA, it can neither copy to or from rows that
    /// overlap, nor with a pitch above [`MAX_PITCH`].
    pub(super) fn new(
        kind: SpanKind,
        destination: (DeviceAddress, Pitch),
        source: (DeviceAddress, Pitch),
        extent: CopyExtent,
        reach: &Reach<'_>,
    ) -> Option<Self> {
        let fits = |pitch: Pitch| {
            let several_planes = extent.depth > 1;
            (extent.width_bytes..=MAX_PITCH).contains(&pitch.bytes)
                && !(several_planes && pitch.rows < extent.height)
        };
        let is_device = |side: SpanKind| kind != side;
        let sides = [
            (is_device(SpanKind::CopyToHost), destination),
            (is_device(SpanKind::CopyToDevice), source),
        ];
        let can = sides.iter().all(|(on_device, (address, pitch))| {
            let is_inside = || reach.contains(address.0, extent.span_bytes(*pitch) as u64);
            fits(*pitch) && (!on_device || is_inside())
        });
        // ROWS-1: checked above.
        can.then_some(Self {
            kind,
            destination: (destination.0.0, destination.1),
            source: (source.0.0, source.1),
            extent,
        })
    }

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
