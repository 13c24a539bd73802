//! How buffers and fences remember a stream.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_rt_driver::RawStream;

/// Identity of a CUDA stream for the life of the process: a counter, never reused, unlike a CUDA
/// handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(u64);

impl StreamId {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // A counter needs no ordering; 2^64 streams are not reached.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Marks streams that someone else owns.
    const ADOPTED: u64 = 1 << 63;

    /// The identity of a stream that someone else owns, and may destroy once nothing of ours is
    /// named after it.
    pub(crate) fn adopted() -> Self {
        Self(Self::new().0 | Self::ADOPTED)
    }

    #[inline]
    pub(crate) fn is_adopted(self) -> bool {
        self.0 & Self::ADOPTED != 0
    }
}

/// A CUDA stream, as buffers remember it. Copying it copies no ownership: the device core keeps its
/// streams.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct StreamRef {
    pub(crate) raw: RawStream,
    pub(crate) id: StreamId,
}
