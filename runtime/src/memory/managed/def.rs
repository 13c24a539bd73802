//! The private fields of [`ManagedBuffer`]. Each function here keeps the invariants, or is
//! `unsafe`.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::device::core::DeviceCore;
use crate::memory::managed_pool::ManagedBlock;
use crate::order::stream_ref::StreamRef;
use crate::tag::Idle;

/// Owns `len` elements of managed memory, whose pages move between host and device by themselves;
/// `P` says which stream they belong to, or [`Idle`].
///
/// A stream's buffer dereferences to a [`DeviceSlice`](crate::DeviceSlice), which kernels and
/// copies of that stream take. The host reaches an idle buffer in place:
/// [`host`](Self::host) and [`host_mut`](Self::host_mut) lend its elements to a closure. A buffer
/// moves between streams and the host as all buffers do, through a [`Handoff`](crate::Handoff) or
/// [`Stream::adopt`](crate::Stream::adopt). So one place at a time uses it, although all could.
///
/// [`Stream::prefetch`](crate::Stream::prefetch) moves the pages ahead of their use, and
/// [`advise`](Self::advise) says how they will be used. Neither changes a byte.
///
/// The memory comes from a pool of the device ([`Device::managed`](crate::Device::managed)).
/// Dropping a buffer gives its block back, and never blocks. The pool reuses or frees a block only
/// after it has seen the block's last event complete.
///
/// Counterexample, for the closures: were the elements lent for as long as the buffer is borrowed,
/// a thread could still read them while the process's exit handlers unmap managed memory. The end
/// of the process waits for the closures, as it waits for calls of the driver.
///
/// # Hazards prevented
/// [H13](crate::hazards#h13) and [H14](crate::hazards#h14): the host reaches only memory that no
/// work uses. [H01](crate::hazards#h01)–[H06](crate::hazards#h06), [H21](crate::hazards#h21), as
/// for [`DeviceBuffer`](crate::DeviceBuffer). [H16](crate::hazards#h16).
///
/// ```
/// # cuda_rt::streams! { Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let mut counts = gpu.managed::<u32>(1024)?;
/// counts.host_mut(|counts| counts[0] = 5)?;
///
/// let mut counts = compute.adopt(counts)?; // ManagedBuffer<u32, Compute>
/// compute.fill(&mut counts[1..], 7)?; // the GPU writes the same memory
/// let counts = compute.release(counts)?.synchronize()?;
/// counts.host(|counts| assert_eq!(counts[..3], [5, 7, 7]))?;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// MANAGED-1. `block` is at least `len` elements long, and owned by nothing else.
// MANAGED-2. The first `len` elements are values of `T`. So all their bytes are initialised,
// unless `T` is a `MaybeUninit`.
// MANAGED-3. Every use by work of a stream is over, or ordered before the present end of the
// stream `at`; if `at` is `None`, every use is over.
// MANAGED-4. While `P` is a stream tag, `at` is that stream.
pub struct ManagedBuffer<T, P = Idle> {
    memory: ManuallyDrop<Memory>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

/// The fields of a buffer. Dropping them outside a buffer frees the block.
pub(super) struct Memory {
    /// `None` if there are no bytes.
    pub(super) block: Option<ManagedBlock>,
    /// In elements.
    pub(super) len: usize,
    pub(super) at: Option<StreamRef>,
    pub(super) core: Arc<DeviceCore>,
}

impl<T, P> ManagedBuffer<T, P> {
    /// # Safety
    /// MANAGED-1 to MANAGED-4 hold for `memory`.
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

    /// Takes the memory out. The caller gives it back to its pool or makes another buffer of it.
    #[inline]
    pub(super) fn into_memory(self) -> Memory {
        let mut buffer = ManuallyDrop::new(self);
        // SAFETY: the memory is taken once: the buffer is neither used nor dropped after this.
        unsafe { ManuallyDrop::take(&mut buffer.memory) }
    }
}

impl<T, P> Drop for ManagedBuffer<T, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory is taken once: nothing uses the buffer after its drop.
        unsafe { ManuallyDrop::take(&mut self.memory) }.give_back();
    }
}
