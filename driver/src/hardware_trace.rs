//! Times of a device's work from the hardware's own tracing, where a driver has it.

use std::fmt;

use super::RawStream;
use crate::Kind;

/// A piece of work that was traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Index of its stream among those asked about; `None` for a stream that was not.
    pub stream: Option<usize>,
    /// What it is.
    pub kind: Kind,
    /// The kernel's entry, or what kind of copy or fill it is.
    pub label: String,
    /// Start, in ns since the trace began.
    pub start_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
    /// Bytes copied or filled; 0 for kernels.
    pub bytes: u64,
    /// The same for all that one call enqueued, and for nothing else.
    pub call: u32,
}

/// A trace that is being taken.
pub trait Trace: Send + Sync + fmt::Debug {
    /// Ends the trace, and gives what of it has ended, by start.
    ///
    /// # Safety
    /// `streams` are live streams of the driver that began it.
    unsafe fn finish(self: Box<Self>, streams: &[RawStream]) -> Vec<Traced>;
}
