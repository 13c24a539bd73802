//! The private fields of [`DeviceBuffer`]. Each function here keeps the invariants, or is `unsafe`.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::super::parts::SplitBlock;
use crate::device::core::DeviceCore;
use crate::memory::BlockAddress;
use crate::order::stream_ref::StreamRef;
use crate::tag::Idle;

/// Owns `len` elements of device memory; `P` says which stream they belong to, or [`Idle`].
///
/// It dereferences to a [`DeviceSlice`](crate::DeviceSlice) of its place, which kernels and copies
/// of that stream take. An idle buffer must first be [adopted](crate::Stream::adopt) by a stream. A
/// buffer moves between streams through a [`Handoff`](crate::Handoff) only.
///
/// Dropping a buffer leaves its memory to the next buffer of its last stream, in the order of that
/// stream, after all work that uses it. The drop does not block ([H21](crate::hazards#h21)).
/// [`Device::set_memory_caching`](crate::Device::set_memory_caching) has more.
///
/// # Hazards prevented
/// [H01](crate::hazards#h01)–[H06](crate::hazards#h06), [H11](crate::hazards#h11),
/// [H21](crate::hazards#h21), [H22](crate::hazards#h22), [H36](crate::hazards#h36): see
/// [`Stream::release`](crate::Stream::release).
//
// # Invariants
// BUFFER-1. `address` is the address of `len` elements that nothing else owns. If `split` is
// `None`, they are all of an allocation. Otherwise they are a part of the block of `split`, or all
// of a foreign block. If the elements have 0 bytes, the address dangles.
// BUFFER-2. Every enqueued use of the memory is over, or ordered before the present end of the
// stream `at`; or else the core takes no more work, and frees nothing.
// BUFFER-3. While `P` is a stream tag, `at` is that stream.
// BUFFER-4. If `address` says that the pool may keep the allocation, the allocation came from
// `DevicePool::alloc`, for as many bytes as all its elements have.
pub struct DeviceBuffer<T, P = Idle> {
    memory: ManuallyDrop<Memory>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

/// The fields of a buffer. Dropping them frees no memory: if unwinding drops them, the memory
/// leaks.
pub(super) struct Memory {
    pub(super) address: BlockAddress,
    /// In elements.
    pub(super) len: usize,
    pub(super) at: StreamRef,
    pub(super) core: Arc<DeviceCore>,
    pub(super) split: Option<Arc<SplitBlock>>,
}

impl<T, P> DeviceBuffer<T, P> {
    /// # Safety
    /// BUFFER-1 to BUFFER-4 hold for `memory`.
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
    /// BUFFER-1 to BUFFER-4 hold again when the borrow ends.
    #[inline]
    pub(super) unsafe fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Takes the memory out. Nothing frees it from now on.
    #[inline]
    pub(super) fn into_memory(self) -> Memory {
        let mut buffer = ManuallyDrop::new(self);
        // SAFETY: the memory is taken once: the buffer is neither used nor dropped after this.
        unsafe { ManuallyDrop::take(&mut buffer.memory) }
    }
}

impl<T, P> Drop for DeviceBuffer<T, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory is taken once: nothing uses the buffer after its drop.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        // SAFETY: BUFFER-1, BUFFER-2 and BUFFER-4 held for the buffer.
        unsafe { memory.free(size_of::<T>()) }
    }
}
