//! Collectives: operations in which several devices take part, each with its own stream and memory.

use std::fmt;

use super::{DeviceAddress, DriverResult, RawStream};

/// How a reduction combines the elements that the ranks send for one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum; integers wrap.
    Sum,
    /// Their product; integers wrap.
    Product,
    /// The smallest element.
    Min,
    /// The largest element.
    Max,
}

/// The operation that all ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every rank receives the reduction of what all ranks send (`ncclAllReduce`).
    AllReduce(Reduction),
    /// Every rank receives what the rank `root` sends (`ncclBroadcast`).
    Broadcast {
        /// The rank that sends.
        root: usize,
    },
    /// Every rank receives what each rank sends, one after another by rank (`ncclAllGather`).
    AllGather,
    /// Every rank receives its part, by rank, of the reduction of what all send
    /// (`ncclReduceScatter`).
    ReduceScatter(Reduction),
}

impl Collective {
    /// The collective's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce(_) => "all-reduce",
            Self::Broadcast { .. } => "broadcast",
            Self::AllGather => "all-gather",
            Self::ReduceScatter(_) => "reduce-scatter",
        }
    }

    /// Number of elements that each of `ranks` ranks sends, and number that each receives. `count`
    /// follows NCCL: the receive length for reduce-scatter, the send length for all others.
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
    /// Size of one number, in bytes.
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
    /// Start of the memory that the rank sends; unused where the rank sends nothing.
    pub send: DeviceAddress,
    /// Start of the memory that the rank receives into. It does not overlap the sent memory, or it
    /// is the same memory where both have the same length.
    pub receive: DeviceAddress,
}

/// Devices of this process that take part in collectives together. Each device is one rank.
///
/// # Safety
/// As [`Driver`](super::Driver): a collective runs in the order of each rank's stream, and uses
/// only the ranges of its parts. It uses a rank's ranges after that rank's part has begun, and
/// before the parts of all ranks have ended. A rank's own part may end earlier.
pub unsafe trait Communicator: Send + Sync + fmt::Debug {
    /// Enqueues a collective of `count` elements ([`Collective::lens`]; more than 0), with one part
    /// for each rank, by rank. The collective begins when every rank's stream has reached its part.
    /// Calls from several threads are served one after another.
    ///
    /// On error, some ranks may have enqueued their parts: [abort](Self::abort) the communicator.
    /// The exception is an error whose call is a check that runs before anything is enqueued.
    ///
    /// # Safety
    /// There is one part for each rank. Streams are live, on their ranks' devices, and not being
    /// captured. Ranges are live, in bounds, and not in conflict with any unordered access until
    /// the collective is done.
    unsafe fn enqueue(
        &self,
        collective: Collective,
        number: Number,
        count: usize,
        parts: &[Part],
    ) -> DriverResult<()>;

    /// Returns an error if an enqueued collective is known to have failed
    /// (`ncclCommGetAsyncError`). Does not block.
    fn status(&self) -> DriverResult<()>;

    /// Ends running collectives, with unspecified results, and refuses all later ones
    /// (`ncclCommAbort`). A second call does nothing.
    fn abort(&self);
}
