//! [`StreamRef`]: the form in which buffers and fences remember a stream.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_rt_driver::RawStream;

/// The identity of a CUDA stream for the life of the process. It is a counter that is never reused,
/// unlike a CUDA handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(u64);

impl StreamId {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // A counter needs no ordering. No process creates 2^63 streams.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The bit that marks an adopted stream, which another library owns.
    const ADOPTED: u64 = 1 << 63;

    /// The identity of an adopted stream. Another library owns it, and may destroy it once the
    /// adoption has ended.
    pub(crate) fn adopted() -> Self {
        Self(Self::new().0 | Self::ADOPTED)
    }

    #[inline]
    pub(crate) fn is_adopted(self) -> bool {
        self.0 & Self::ADOPTED != 0
    }
}

/// A CUDA stream, as buffers remember it. It owns nothing: the device core keeps its streams.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct StreamRef {
    pub(crate) raw: RawStream,
    pub(crate) id: StreamId,
}
