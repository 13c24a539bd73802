//! The private fields of [`PinnedBuffer`]. Each function here keeps the invariants, or is `unsafe`.

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
/// An idle buffer dereferences to `[T]`, and the CPU reads and writes it like any slice. A stream's
/// buffer is out of the CPU's reach: it dereferences to [`PinnedSlice`](crate::PinnedSlice), which
/// copies of that stream take ([H13](crate::hazards#h13), [H14](crate::hazards#h14)).
///
/// The memory comes from a pool of the device. Dropping a buffer gives its block back, and never
/// blocks. The pool reuses a block only after it has seen the block's last event complete. So the
/// next user meets neither a pending copy nor a disk write that still owns the buffer
/// ([H16](crate::hazards#h16), [H17](crate::hazards#h17)).
///
/// The memory stays with this process, because the GPU may write it. A child of `fork` that touches
/// a buffer of its parent is ended by a signal (SIGSEGV).
//
// # Invariants
// PINNED-1. `storage` is mapped, page-locked, at least `len` elements long, and owned by nothing
// else.
// PINNED-2. The first `len` elements are values of `T`. So all their bytes are initialised, unless
// `T` is a `MaybeUninit`.
// PINNED-3. Every use by work of a stream, host functions included, is over, or ordered before the
// present end of the stream `at`; if `at` is `None`, every use is over.
// PINNED-4. While `P` is a stream tag, `at` is that stream.
pub struct PinnedBuffer<T, P = Idle> {
    memory: ManuallyDrop<Memory>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

/// The fields of a buffer. Dropping them outside a buffer unmaps a block of the pool.
pub(super) struct Memory {
    /// `None` if there are no bytes.
    pub(super) storage: Option<Storage>,
    /// In elements.
    pub(super) len: usize,
    pub(super) at: Option<StreamRef>,
    pub(super) core: Arc<DeviceCore>,
}

/// The memory that holds the elements.
pub(super) enum Storage {
    /// All of a block. It is in a box because a buffer moves with each handoff.
    Whole(Box<Block>),
    /// A part of a split or foreign block, and its distance from the block's start, in bytes.
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
    /// PINNED-1 to PINNED-4 hold for `memory`.
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

    /// Takes the memory out. The caller gives it back to its pool or makes another buffer of it.
    #[inline]
    pub(super) fn into_memory(self) -> Memory {
        let mut buffer = ManuallyDrop::new(self);
        // SAFETY: the memory is taken once: the buffer is neither used nor dropped after this.
        unsafe { ManuallyDrop::take(&mut buffer.memory) }
    }
}

impl<T, P> Drop for PinnedBuffer<T, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory is taken once: nothing uses the buffer after its drop.
        unsafe { ManuallyDrop::take(&mut self.memory) }.give_back();
    }
}
