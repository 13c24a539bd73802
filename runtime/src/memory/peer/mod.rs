//! [`PeerBuffer`]: memory of one device, on loan to another.

mod def;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use def::Memory;
pub use def::PeerBuffer;

use super::DeviceBuffer;
use super::slice::DeviceSlice;
use super::view::{DeviceView, DeviceViewMut};
use crate::device::core::DeviceCore;
use crate::memory::bundle::{Bundle, OwnedBy};
use crate::order::fence::Fence;
use crate::order::handoff::Handoff;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::{DeviceTag, Idle, Place, StreamTag};
use cuda_rt_driver::DeviceAddress;

impl<T, D: DeviceTag, P: Place> fmt::Debug for PeerBuffer<T, D, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PeerBuffer({:#x}, {} elements)",
            self.address().0,
            self.memory().theirs.len()
        )
    }
}

impl<T, D: DeviceTag, P: Place> PeerBuffer<T, D, P> {
    fn address(&self) -> DeviceAddress {
        self.memory().theirs.address()
    }

    /// The same memory in another place of the same device.
    ///
    /// # Safety
    /// PEER-2 and PEER-3 hold for `Q` and `at`.
    unsafe fn recast<Q: Place>(self, at: Option<StreamRef>) -> PeerBuffer<T, D, Q> {
        let memory = Memory {
            at,
            ..self.into_memory()
        };
        // SAFETY: PEER-1 held for `self`. PEER-2 and PEER-3 hold by this function's contract.
        unsafe { PeerBuffer::new(memory) }
    }
}

impl<T, D: DeviceTag, S: StreamTag> PeerBuffer<T, D, S> {
    /// A buffer of another device for the stream `at` of `core`.
    ///
    /// # Safety
    /// `at` is the stream `S` on `core`, whose device has access to the memory of `theirs`, all of
    /// which came from its pool. Every use of `theirs` is ordered before the present end of `at`.
    pub(crate) unsafe fn on_loan(
        theirs: Leaked<DeviceBuffer<T, Idle<D>>>,
        at: StreamRef,
        core: &Arc<DeviceCore>,
    ) -> Self {
        let memory = Memory {
            theirs,
            at: Some(at),
            core: Arc::clone(core),
        };
        // SAFETY: PEER-1 to PEER-3 hold by this function's contract.
        unsafe { Self::new(memory) }
    }
}

impl<T, D: DeviceTag, E: DeviceTag> PeerBuffer<T, D, Idle<E>> {
    /// Gives idle memory back for its own device. No call, and no wait: no use is pending.
    pub fn for_its_device(self) -> DeviceBuffer<T, Idle<D>> {
        // PEER-2: `at` is `None`, so every use is over, and the memory is idle as its type says.
        self.into_memory().theirs.take_back()
    }
}

impl<T, D: DeviceTag, E: DeviceTag> Handoff<PeerBuffer<T, D, Idle<E>>> {
    /// Turns the handoff into one for the memory's own device, behind the same event. Calls
    /// nothing: the stream that acquires the memory waits for the work of the other device.
    ///
    /// # Hazards prevented
    /// [H37](crate::hazards#h37): the memory is on no stream until its handoff is acquired.
    #[must_use = "dropping a handoff frees what it carries; `acquire` it on a stream of its own device"]
    pub fn for_its_device(self) -> Handoff<DeviceBuffer<T, Idle<D>>> {
        let (bundle, fence) = self.into_parts();
        // This may be the last handle of the borrowing device, whose end makes calls. If one
        // unwinds, the memory leaks.
        let Memory { theirs, core, .. } = bundle.take_back().into_memory();
        drop(core);
        // SAFETY: HANDOFF-1: every use of the memory, also by its own device (PEER-1), is over or
        // ordered before the fence.
        unsafe { Handoff::pending(theirs.take_back(), fence) }
    }
}

impl<T, D: DeviceTag, P: Place> Deref for PeerBuffer<T, D, P> {
    type Target = DeviceSlice<T, P>;

    #[inline]
    fn deref(&self) -> &DeviceSlice<T, P> {
        // SAFETY: PEER-1 and PEER-3 give SLICE-1 for as long as the buffer is borrowed: the device
        // of `P` has access to the memory.
        unsafe { DeviceSlice::from_raw(self.address(), self.memory().theirs.len()) }
    }
}

impl<T, D: DeviceTag, P: Place> DerefMut for PeerBuffer<T, D, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut DeviceSlice<T, P> {
        // SAFETY: as above, and the buffer is borrowed uniquely (SLICE-2).
        unsafe { DeviceSlice::from_raw_mut(self.address(), self.memory().theirs.len()) }
    }
}

impl<T, D: DeviceTag> Memory<T, D> {
    /// Frees the memory on its own device, behind all uses. Never blocks.
    ///
    /// # Safety
    /// PEER-1 and PEER-2 hold.
    unsafe fn free(self) {
        let Self { theirs, at, core } = self;
        let mut fence = match at {
            None => Fence::DONE,
            // If the end of the last use cannot be recorded, the memory is leaked (obligation 4),
            // but its hold on its device is dropped. An ordering that could not be made leaves that
            // end unknown too.
            Some(at) => match core.ordered().is_ok().then(|| core.events().record(at, false)) {
                Some(Ok(lease)) => lease.into(),
                _ => return theirs.take_back().leak(),
            },
        };
        let theirs = theirs.take_back();
        // SAFETY: PEER-2: every use is over once `fence` is: it was recorded behind all of them.
        unsafe { theirs.retire(&mut fence) }
    }
}

// SAFETY: there is one part, which every method converts. `&` gives no way to write it.
unsafe impl<T, D: DeviceTag, E: DeviceTag> Bundle for PeerBuffer<T, D, Idle<E>> {
    type Device = E;
    type On<S: StreamTag> = PeerBuffer<T, D, S>;
    type View<'v, S: StreamTag> = DeviceViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = DeviceView<'v, T, S>;

    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> PeerBuffer<T, D, S> {
        // SAFETY: PEER-2 and PEER-3 hold by the contract of `attach`: every use is ordered before
        // the present end of `at`, which is the stream `S`, on the device of `core`.
        unsafe { self.recast(Some(at)) }
    }

    unsafe fn idle_from<S: StreamTag>(on: PeerBuffer<T, D, S>) -> Self {
        // SAFETY: PEER-2 holds once every use is over. By the contract of `idle_from` the buffer is
        // neither used nor dropped earlier. PEER-3 demands nothing of `Idle`.
        unsafe { on.recast(None) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> DeviceViewMut<'v, T, S> {
        // SAFETY: the contract of `view` is SLICE-1 and SLICE-2 for `'v` and `S`.
        unsafe { DeviceViewMut::new(self.address(), self.memory().theirs.len()) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> DeviceView<'v, T, S> {
        // SAFETY: the contract of `by_ref` is SLICE-1 for `'v` and `S`.
        unsafe { DeviceView::new(self.address(), self.memory().theirs.len()) }
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // The end of a stream of this device is recorded, so that a stream of the other device can
        // wait for it. If that unwinds, the memory is leaked.
        let memory = self.into_memory();
        let mut fence = fence.share();
        // SAFETY: every use is over once `fence` is, by this function's contract and PEER-1.
        unsafe { memory.theirs.take_back().retire(&mut fence) }
    }
}

// SAFETY: there is one part, and `S` owns it.
unsafe impl<T, D: DeviceTag, S: StreamTag> OwnedBy<S> for PeerBuffer<T, D, S> {
    type Idle = PeerBuffer<T, D, Idle<S::Device>>;

    unsafe fn detach(self) -> Self::Idle {
        // SAFETY: as in `idle_from`: PEER-2 holds once every use is over, and by the contract of
        // `detach` the buffer is neither used nor dropped earlier.
        unsafe { self.recast(None) }
    }
}
