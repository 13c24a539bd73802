//! The private fields of [`DeviceBuffer`]: what is here keeps its invariants, or is `unsafe`.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::super::parts::SplitBlock;
use crate::device::core::DeviceCore;
use crate::order::stream_ref::StreamRef;
use crate::tag::Idle;
use cuda_rt_driver::DeviceAddress;

/// Owns `len` elements of device memory; `P` says which stream they belong to, or [`Idle`].
///
/// It dereferences to a [`DeviceSlice`](crate::DeviceSlice) of its place, which kernels and copies
/// of that stream take; of an idle one no stream takes it: it must be
/// [adopted](crate::Stream::adopt) first. It moves between streams through a
/// [`Handoff`](crate::Handoff) only.
///
/// Dropping it frees in the order of the stream that it last belonged to (`cuMemFreeAsync`), after
/// all work that uses it, and does not block (H21).
///
/// # Hazards prevented
/// H01–H06, H11, H21, H22, H36: see [`Stream::release`](crate::Stream::release).
///
/// # Invariants
/// BUFFER-1. `address` is that of `len` elements that nothing else owns: all of an allocation where
/// `split` is `None`, and a part of
///     the allocation of `split`, or all of a foreign one, otherwise; dangling where the allocation
///     would have 0 bytes.
/// BUFFER-2. Every use of it that is enqueued is ordered before the present end of the stream `at`,
/// or is over; or the core takes no
///     more work, and frees nothing.
/// BUFFER-3. While `P` is a stream tag, `at` is that stream.
pub struct DeviceBuffer<T, P = Idle> {
    memory: ManuallyDrop<Memory>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

/// What a buffer owns. Dropped by itself it frees nothing: leaking is what becomes of it where
/// unwinding passes it.
pub(super) struct Memory {
    pub(super) address: DeviceAddress,
    /// In elements.
    pub(super) len: usize,
    pub(super) at: StreamRef,
    pub(super) core: Arc<DeviceCore>,
    pub(super) split: Option<Arc<SplitBlock>>,
}

impl<T, P> DeviceBuffer<T, P> {
    /// # Safety
    /// BUFFER-1 to BUFFER-3 hold of `memory`.
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
    /// BUFFER-1 to BUFFER-3 hold again when the borrow ends.
    #[inline]
    pub(super) unsafe fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// The memory, which is freed by no one from now on.
    #[inline]
    pub(super) fn into_memory(self) -> Memory {
        let mut buffer = ManuallyDrop::new(self);
        // SAFETY: taken once: the buffer is neither used nor dropped after this.
        unsafe { ManuallyDrop::take(&mut buffer.memory) }
    }
}

impl<T, P> Drop for DeviceBuffer<T, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        // SAFETY: BUFFER-1 and BUFFER-2 held of the buffer.
        unsafe { memory.free() }
    }
}
