//! Collectives: operations that several devices take part in, each with a stream and memory of its
//! own.

use std::fmt;

use super::{DeviceAddress, DriverResult, RawStream};

/// What becomes of the elements that the ranks give for one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum; integers wrap.
    Sum,
    /// Their product; integers wrap.
    Product,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

/// What all ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// All receive the reduction of what all send (`ncclAllReduce`).
    AllReduce(Reduction),
    /// All receive what this rank sends (`ncclBroadcast`).
    Broadcast {
        /// The rank.
        root: usize,
    },
    /// All receive what each sends, one after another by rank (`ncclAllGather`).
    AllGather,
    /// Each receives its part, by rank, of the reduction of what all send (`ncclReduceScatter`).
    ReduceScatter(Reduction),
}

impl Collective {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce(_) => "all-reduce",
            Self::Broadcast { .. } => "broadcast",
            Self::AllGather => "all-gather",
            Self::ReduceScatter(_) => "reduce-scatter",
        }
    }

    /// Elements that one of `ranks` sends and receives, where `count` is what NCCL counts: those
    /// that a rank receives of a reduction that is scattered, and those that it sends of everything
    /// else.
    pub fn lens(self, count: usize, ranks: usize) -> (usize, usize) {
        match self {
            Self::AllReduce(_) | Self::Broadcast { .. } => (count, count),
            Self::AllGather => (count, count * ranks),
            Self::ReduceScatter(_) => (count * ranks, count),
        }
    }

    /// Whether `rank` sends anything.
    pub fn sends(self, rank: usize) -> bool {
        !matches!(self, Self::Broadcast { root } if root != rank)
    }
}

/// Types of numbers that can be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Rust's own types")]
pub enum Number {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    /// Size of one, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// One rank's part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// A stream of the rank's device.
    pub stream: RawStream,
    /// What it sends; unused where it sends nothing.
    pub send: DeviceAddress,
    /// Where it receives: apart from what it sends, or the same place where the two are of one
    /// length.
    pub receive: DeviceAddress,
}

/// Devices of this process that take part in collectives together, each as one rank.
///
/// # Safety
/// As [`Driver`](super::Driver): a collective runs in the order of each rank's stream, and uses
/// nothing but the ranges of its parts. It uses a rank's ranges after that rank's part has begun,
/// and before the parts of all ranks have ended: a rank's own part may end earlier.
pub unsafe trait Communicator: Send + Sync + fmt::Debug {
    /// Enqueues a collective of `count` elements ([`Collective::lens`]; more than 0), one part for
    /// each rank, by rank. It begins when every rank's stream gets there. Several threads that call
    /// this are served one after another.
    ///
    /// After an error nothing is known of what was enqueued, unless the error's call is that of a
    /// check that comes before; the communicator is to be [aborted](Self::abort).
    ///
    /// # Safety
    /// One part for each rank; streams are live, on their ranks' devices and not being captured;
    /// ranges are live, in bounds, and not in conflict with any unordered access until the
    /// collective is done.
    unsafe fn enqueue(
        &self,
        collective: Collective,
        number: Number,
        count: usize,
        parts: &[Part],
    ) -> DriverResult<()>;

    /// Whether what was enqueued runs well as far as is known; does not block
    /// (`ncclCommGetAsyncError`).
    fn status(&self) -> DriverResult<()>;

    /// Ends what is running, with unspecified results, and lets nothing more be enqueued
    /// (`ncclCommAbort`). The second call does nothing.
    fn abort(&self);
}
