//! Times of a device's work, measured by the hardware's own tracing, where a driver offers it.

use std::fmt;

use super::RawStream;
use crate::Kind;

/// One traced operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Index of the operation's stream among the streams given to [`Trace::finish`]; `None` for any
    /// other stream.
    pub stream: Option<usize>,
    /// The kind of operation.
    pub kind: Kind,
    /// The name of the kernel's entry, or a name for the kind of copy or fill.
    pub label: String,
    /// Start, in ns since the trace began.
    pub start_ns: u64,
    /// End, in ns since the trace began.
    pub end_ns: u64,
    /// Bytes copied or filled; 0 for kernels.
    pub bytes: u64,
    /// Correlation id: operations enqueued by one API call share it, and no other operation has it.
    pub call: u32,
}

/// A trace in progress.
pub trait Trace: Send + Sync + fmt::Debug {
    /// Ends the trace, and returns the operations that have ended, sorted by start.
    ///
    /// # Safety
    /// `streams` are live streams of the driver that began the trace.
    unsafe fn finish(self: Box<Self>, streams: &[RawStream]) -> Vec<Traced>;
}
