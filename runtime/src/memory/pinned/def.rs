//! The private fields of [`PinnedBuffer`]: what is here keeps its invariants, or is `unsafe`.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use super::super::parts::SplitPinned;
use crate::device::core::DeviceCore;
use crate::memory::pinned_pool::Block;
use crate::order::stream_ref::StreamRef;
use crate::tag::Idle;

/// Owns `len` elements of page-locked host memory; `P` says which stream they belong to, or
/// [`Idle`].
///
/// Idle it dereferences to `[T]`, and the CPU reads and writes it as any slice. On a stream it is
/// out of the CPU's reach: it dereferences to [`PinnedSlice`](crate::PinnedSlice), which copies of
/// that stream take (H13, H14).
///
/// It comes from a pool of the device. Dropping it gives the block back, and the pool hands it out
/// again only when the last event that covers its use was seen complete, so neither a pending copy
/// nor a disk write that still owns it can meet the next user (H16, H17). Dropping never blocks.
///
/// # Invariants
/// PINNED-1. `home` is mapped, page-locked, at least `len` elements long, and owned by nothing
/// else.
/// PINNED-2. All bytes of the first `len` elements are initialised, to values of `T`.
/// PINNED-3. Every use by the GPU is over, or ordered before the present end of the stream `at`;
/// over where `at` is `None`.
/// PINNED-4. While `P` is a stream tag, `at` is that stream.
pub struct PinnedBuffer<T, P = Idle> {
    memory: ManuallyDrop<Memory>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

/// What a buffer owns. Dropping it by itself unmaps a block of the pool.
pub(super) struct Memory {
    /// `None` where there are no bytes.
    pub(super) home: Option<Storage>,
    /// In elements.
    pub(super) len: usize,
    pub(super) at: Option<StreamRef>,
    pub(super) core: Arc<DeviceCore>,
}

/// Where the elements are.
pub(super) enum Storage {
    /// All of a block.
    Whole(Block),
    /// What of a split block, or of a foreign one, begins so many bytes after its start.
    Part(Arc<SplitPinned>, usize),
}

impl Storage {
    #[inline]
    pub(super) fn address(&self) -> NonNull<c_void> {
        match self {
            Self::Whole(block) => block.address(),
            // SAFETY: a part begins inside its block, or at its end.
            Self::Part(split, offset) => unsafe { split.address().byte_add(*offset) },
        }
    }
}

impl<T, P> PinnedBuffer<T, P> {
    /// # Safety
    /// PINNED-1 to PINNED-4 hold of `memory`.
    #[inline]
    pub(super) unsafe fn new(memory: Memory) -> Self {
        Self {
            memory: ManuallyDrop::new(memory),
            marker: PhantomData,
        }
    }

    #[inline]
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// # Safety
    /// PINNED-1 to PINNED-4 hold again when the borrow ends.
    #[inline]
    pub(super) unsafe fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// The memory, which the caller gives back to its pool or makes a buffer of again.
    #[inline]
    pub(super) fn into_memory(self) -> Memory {
        let mut buffer = ManuallyDrop::new(self);
        // SAFETY: taken once: the buffer is neither used nor dropped after this.
        unsafe { ManuallyDrop::take(&mut buffer.memory) }
    }
}

impl<T, P> Drop for PinnedBuffer<T, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        unsafe { ManuallyDrop::take(&mut self.memory) }.give_back();
    }
}
