//! The private fields of [`PeerBuffer`]. Each function here keeps the invariants, or is `unsafe`.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::device::core::DeviceCore;
use crate::memory::DeviceBuffer;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::{DeviceTag, Idle, Place};

/// A buffer of the device `D`, on loan to another device; `P` says which stream of that device it
/// belongs to, or [`Idle`]. Kernels of the other device reach it over the link between the two.
///
/// ```text
///   on device B                          on device A
///   DeviceBuffer<T, Compute<B>>
///      │ release
///      ▼
///   Handoff<DeviceBuffer<T, Idle<B>>> ──acquire_peer──▶ PeerBuffer<T, B, Compute<A>>
///                                                          │ kernels, copies, fills of A;
///                                                          │ release, acquire between A's streams
///                                                          │ release
///                                                          ▼
///   Handoff<DeviceBuffer<T, Idle<B>>> ◀──for_its_device── Handoff<PeerBuffer<T, B, Idle<A>>>
///      │ acquire
///      ▼
///   DeviceBuffer<T, Compute<B>>
/// ```
///
/// It dereferences to a [`DeviceSlice`](crate::DeviceSlice) of its place, like a buffer of the
/// other device. While it is on loan, its own device has no handle of it. Dropping it frees the
/// memory on its own device, behind the work of the other device, and does not block.
///
/// [`Stream::acquire_peer`](crate::Stream::acquire_peer) makes it, and
/// [`Handoff::for_its_device`](crate::Handoff::for_its_device) returns the memory.
/// Where a buffer is read more than once, [a copy](crate::Stream::copy_from_peer) may be faster.
///
/// # Hazards prevented
/// [H36](crate::hazards#h36) and [H37](crate::hazards#h37): one stream of one device owns the
/// memory at a time, and every change of owner waits for the owner before.
/// [H21](crate::hazards#h21).
///
/// ```
/// # use cuda_rt::simulator::SimConfig;
/// use cuda_rt::{Device, Idle, PeerBuffer};
///
/// # cuda_rt::streams! { pub Compute; }
/// # Device::simulated(SimConfig::default(), |first| first.simulated_peer(|second| {
/// # let (here, there) = (first.stream::<Compute<_>>()?, second.stream::<Compute<_>>()?);
/// let theirs = there.alloc_from_slice(&[1_u32, 2, 3])?;
/// let mut on_ours: PeerBuffer<u32, _, _> = here.acquire_peer(there.release(theirs)?)?;
/// here.fill(&mut on_ours[..1], 9)?; // writes the memory of the other device
///
/// // On the host it is idle memory of its device again.
/// let idle = here.release(on_ours)?.synchronize()?;
/// let theirs = there.adopt(idle.for_its_device())?;
/// assert_eq!(there.copy_to_vec(&theirs)?, [9, 2, 3]);
/// # Ok::<(), cuda_rt::Error>(())
/// # }))???;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// PEER-1. `theirs` is live memory of the pool of its own device, and the device of `core` has
// access to the pool. No stream of its own device uses it, except by work that is over, or ordered
// before all work of `core` that uses the memory.
// PEER-2. Every use of the memory is over, or ordered before the present end of `at`, a stream of
// `core`; if `at` is `None`, every use is over.
// PEER-3. While `P` is a stream tag, `at` is that stream.
pub struct PeerBuffer<T, D: DeviceTag, P: Place> {
    memory: ManuallyDrop<Memory<T, D>>,
    marker: PhantomData<fn(P) -> P>,
}

/// The fields of a buffer. Dropping them outside a buffer leaks the memory.
pub(super) struct Memory<T, D: DeviceTag> {
    /// Its type calls it idle, and it may not be.
    pub(super) theirs: Leaked<DeviceBuffer<T, Idle<D>>>,
    pub(super) at: Option<StreamRef>,
    pub(super) core: Arc<DeviceCore>,
}

impl<T, D: DeviceTag, P: Place> PeerBuffer<T, D, P> {
    /// # Safety
    /// PEER-1 to PEER-3 hold for `memory`.
    pub(super) unsafe fn new(memory: Memory<T, D>) -> Self {
        Self {
            memory: ManuallyDrop::new(memory),
            marker: PhantomData,
        }
    }

    #[inline]
    pub(super) fn memory(&self) -> &Memory<T, D> {
        &self.memory
    }

    /// Takes the memory out.
    pub(super) fn into_memory(self) -> Memory<T, D> {
        let mut buffer = ManuallyDrop::new(self);
        // SAFETY: the memory is taken once: the buffer is neither used nor dropped after this.
        unsafe { ManuallyDrop::take(&mut buffer.memory) }
    }
}

impl<T, D: DeviceTag, P: Place> Drop for PeerBuffer<T, D, P> {
    fn drop(&mut self) {
        // SAFETY: the memory is taken once: nothing uses the buffer after its drop.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        // SAFETY: PEER-1 and PEER-2 held for the buffer.
        unsafe { memory.free() }
    }
}
