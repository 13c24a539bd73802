//! What an update of a graph can change, as CUDA limits it.

use std::mem::{Discriminant, discriminant};

use super::clock::SpanKind;
use super::op::Op;
use super::reach::{HostRanges, MemoryKind};

impl Op {
    /// The properties that an update of a graph cannot change.
    fn kind(&self) -> (Discriminant<Self>, Option<SpanKind>) {
        let copy = match self {
            Self::Copy { kind, .. } => Some(*kind),
            Self::CopyRows(rows) => Some(rows.kind()),
            _ => None,
        };
        (discriminant(self), copy)
    }

    /// Whether an update of a graph can put `new` in the place of this operation. As in CUDA, a
    /// copy of several rows can only stay as it is, and another copy keeps the kind of its memory.
    pub(super) fn can_become(&self, new: &Self, host: &HostRanges) -> bool {
        match (self, new) {
            (Self::CopyRows(old), Self::CopyRows(new)) => old == new,
            _ => self.kind() == new.kind() && self.copied_memory(host) == new.copied_memory(host),
        }
    }

    /// The kinds of the memory that a copy names as memory of a device: what it reads, and what it
    /// writes. On an H200 (driver 580) a fill may change from one kind to another, and so may the
    /// host's side of a copy.
    fn copied_memory(&self, host: &HostRanges) -> [Option<MemoryKind>; 2] {
        let Self::Copy {
            kind,
            destination,
            source,
            ..
        } = self
        else {
            return [None; 2];
        };
        let read = (*kind != SpanKind::CopyToDevice).then(|| host.kind(*source));
        let written = (*kind != SpanKind::CopyToHost).then(|| host.kind(*destination));
        [read, written]
    }
}
