//! Operations of streams: the data that each keeps until it runs, and its effect on memory.

use super::clock::{SpanKind, Work};
use super::collective::exchange::{self, Exchange, Receive};
use super::launch::{Launch, Trap};
use super::memory;
use super::module::FunctionCall;
use super::reach::Reach;
use super::replay::Replay;
use super::rows::Rows;
use cuda_rt_driver::HostFunction;

/// A place in a stream: after its first `at` operations. It stays meaningful after the stream is
/// destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) stream: u64,
    pub(super) at: u64,
}

/// An operation of a stream.
#[derive(Debug)]
pub(super) enum Op {
    /// Blocks the stream.
    Wait(Position),
    /// Fills memory with junk: an allocation begins, or an allocation of a graph ends.
    Spoil { address: u64, bytes: u64, salt: u64 },
    /// Ends a block.
    Free { address: u64, len_bytes: u64 },
    /// Copies between two addresses; at least one is on the device.
    Copy {
        kind: SpanKind,
        destination: u64,
        source: u64,
        bytes: usize,
    },
    /// Copies rows between two addresses; at least one is on the device.
    CopyRows(Box<Rows>),
    /// Writes a pattern until `bytes` are written.
    Fill {
        destination: u64,
        pattern: Pattern,
        bytes: usize,
    },
    /// Gives the data that a rank sends.
    Send {
        from: u64,
        bytes: usize,
        rank: usize,
        exchange: Exchange,
    },
    /// Computes the data that a rank receives, from the data that all ranks gave.
    Receive(Box<Receive>),
    /// Runs a kernel.
    Launch(Box<Launch>),
    /// Runs the stand-in of a function of a loaded module.
    Function(Box<FunctionCall>),
    /// Runs a function on the host's thread for them.
    HostFunction(HostFunction),
    /// Replays a graph as it was at its launch. The replay is kept while a host function of the
    /// graph runs.
    Graph {
        graph: u64,
        version: u64,
        replay: Option<Box<Replay>>,
    },
}

/// The pattern of a fill; stored in place unless it is long.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Short([u8; 15], u8),
    Long(Box<[u8]>),
}

impl Pattern {
    pub(super) fn new(pattern: &[u8]) -> Self {
        let mut short = [0; 15];
        match short.get_mut(..pattern.len()) {
            Some(room) => {
                room.copy_from_slice(pattern);
                Self::Short(short, pattern.len() as u8)
            }
            None => Self::Long(pattern.into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl Op {
    /// The operation's load on an engine, if it uses one.
    pub(super) fn work(&mut self) -> Option<Work> {
        let (kind, label, bytes) = match self {
            Self::Wait(_)
            | Self::Spoil { .. }
            | Self::Free { .. }
            | Self::HostFunction(_)
            | Self::Graph { .. }
            | Self::Send { .. } => {
                return None;
            }
            Self::Receive(receive) => return Some(receive.work()),
            Self::Launch(launch) => return Some(launch.work()),
            Self::Function(function) => return Some(function.work()),
            Self::CopyRows(rows) => (rows.kind(), rows.label(), rows.bytes()),
            Self::Copy {
                kind: kind @ SpanKind::CopyToDevice,
                bytes,
                ..
            } => (*kind, "copy to device", *bytes),
            Self::Copy {
                kind: kind @ SpanKind::CopyToHost,
                bytes,
                ..
            } => (*kind, "copy to host", *bytes),
            Self::Copy {
                kind: kind @ SpanKind::CopyPeer,
                bytes,
                ..
            } => (*kind, "copy to peer", *bytes),
            Self::Copy { kind, bytes, .. } => (*kind, "copy", *bytes),
            Self::Fill { bytes, .. } => (SpanKind::Fill, "fill", *bytes),
        };
        Some(Work {
            kind,
            label,
            bytes: bytes as u64,
            threads: 0,
        })
    }

    /// Applies the operation to memory; does nothing for operations that only order others, or that
    /// run outside the device's lock.
    pub(super) fn perform(&mut self, reach: &Reach<'_>) -> Result<(), Trap> {
        match self {
            Self::Wait(_) | Self::Free { .. } | Self::HostFunction(_) | Self::Graph { .. } => {}
            Self::Spoil { address, bytes, salt } => reach.own().spoil(*address, *bytes, *salt),
            Self::Copy {
                destination,
                source,
                bytes,
                ..
            } => {
                // SAFETY: the device's side was found in memory that it reaches: memory of a device
                // stays mapped (CHUNK-1), and page-locked memory until work that uses it has run,
                // by the contract of `unregister_host`. The code that enqueued the copy answers for
                // the host's side, and for the order.
                unsafe { memory::copy(*destination, *source, *bytes) };
            }
            Self::CopyRows(rows) => rows.run(),
            Self::Fill {
                destination,
                pattern,
                bytes,
            } => {
                // SAFETY: as above.
                unsafe { memory::repeat(*destination, pattern.bytes(), *bytes) };
            }
            Self::Send {
                from,
                bytes,
                rank,
                exchange,
            } => exchange::send(reach.own(), *from, *bytes, *rank, exchange),
            Self::Receive(receive) => receive.run(reach.own()),
            Self::Launch(launch) => launch.run(reach)?,
            Self::Function(function) => function.run(reach)?,
        }
        Ok(())
    }
}
