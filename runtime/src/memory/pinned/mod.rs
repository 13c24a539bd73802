//! [`PinnedBuffer`]: an owner of page-locked memory.

mod def;
mod uninit;

use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

pub use def::PinnedBuffer;
use def::{Memory, Storage};

use super::foreign::Foreign;
use super::parts::{PinnedBlock, SplitPinned};
use super::pinned_slice::PinnedSlice;
use super::view::{PinnedView, PinnedViewMut};
use crate::device::core::DeviceCore;
use crate::error::{Error, Refused, Result};
use crate::memory::bundle::{Bundle, OwnedBy, ToHost};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::{DeviceTag, Idle, Live, StreamTag};
use cuda_rt_driver::{CallSite, DeviceAddress, Hint};

/// Prints the address and the length, for every place `P`: a derived `Debug` of a bundle must not
/// read memory that is in use. To print the elements of an idle buffer, print the slice:
/// `&buffer[..]`.
impl<T, P> fmt::Debug for PinnedBuffer<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({:?}, {} elements)", self.base(), self.len())
    }
}

impl<T, P> PinnedBuffer<T, P> {
    /// Length in elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.memory().len
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn base(&self) -> NonNull<T> {
        match &self.memory().storage {
            Some(storage) => storage.address().cast(),
            None => NonNull::dangling(),
        }
    }

    /// The address of the memory, for the host functions of its stream.
    #[inline]
    pub(in crate::memory) fn start(&self) -> NonNull<c_void> {
        self.base().cast()
    }

    pub(super) fn address(&self) -> DeviceAddress {
        DeviceAddress(self.base().addr().get() as u64)
    }

    /// Splits the buffer at element `mid`: keeps the elements before `mid`, and returns an owner of
    /// the rest, as [`DeviceBuffer::split_off`](crate::DeviceBuffer::split_off) does. When the last
    /// part is dropped, the block goes back to the pool. The pool reuses it after it has seen the
    /// uses of all parts complete ([H16](crate::hazards#h16)).
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_off(&mut self, mid: usize) -> Self {
        let len = self.len();
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        // SAFETY: PINNED-1: `self` shrinks to the first half of the elements that it owned, and
        // `rest` gets the others. PINNED-2 holds for each element. `at` does not change, so
        // PINNED-3 and PINNED-4 still hold.
        let memory = unsafe { self.memory_mut() };
        let split = memory.storage.take().map(|storage| match storage {
            Storage::Whole(block) => (Arc::new(SplitPinned::new(PinnedBlock::Pool(block))), 0),
            Storage::Part(split, offset) => (split, offset),
        });
        let part = |skipped| {
            let (split, offset) = split.as_ref()?;
            Some(Storage::Part(
                Arc::clone(split),
                offset + skipped * size_of::<T>(),
            ))
        };
        (memory.storage, memory.len) = (part(0), mid);
        let rest = Memory {
            storage: part(mid),
            len: len - mid,
            at: memory.at,
            core: Arc::clone(&memory.core),
        };
        // SAFETY: PINNED-1: `rest` owns the second half, which `self` gave up. PINNED-2 to PINNED-4
        // held for the whole.
        unsafe { Self::new(rest) }
    }

    /// Joins two adjacent parts of one block: `tail` must begin where this part ends. The block
    /// counts as split until it is back in the pool.
    ///
    /// # Errors
    /// [`Error::NotAdjacent`] if the parts are not adjacent. Both are then dropped;
    /// [`try_join`](Self::try_join) gives them back.
    ///
    /// ```
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let mut head = gpu.pinned_from(&[1_u32, 2, 3, 4])?;
    /// let tail = head.split_off(2); // a buffer of its own, for another stream or thread
    /// assert_eq!((head.len(), tail[..].to_vec()), (2, vec![3, 4]));
    /// let whole = head.join(tail)?;
    /// assert_eq!(whole[..], [1, 2, 3, 4]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn join(self, tail: Self) -> Result<Self> {
        Ok(self.try_join(tail)?)
    }

    /// Like [`join`](Self::join), but gives both parts back if they are not adjacent.
    ///
    /// # Errors
    /// [`Refused`] with both parts, as `(self, tail)`.
    pub fn try_join(self, tail: Self) -> Result<Self, Refused<(Self, Self)>> {
        let len = self.len().checked_add(tail.len());
        let (Some(len), true) = (len, self.is_before(&tail)) else {
            return Err(Refused {
                error: Error::NotAdjacent {
                    during: "PinnedBuffer::join",
                },
                value: (self, tail),
            });
        };
        // This drop does not end the block: the first part still holds it.
        drop(tail.into_memory());
        let memory = Memory {
            len,
            ..self.into_memory()
        };
        // SAFETY: PINNED-1 and PINNED-2: both parts were owned, and are adjacent. PINNED-3: if a
        // stream owns them, the uses of both come before its present end; if they are idle, no use
        // of either is pending. PINNED-4 held for both.
        Ok(unsafe { Self::new(memory) })
    }

    /// Whether `tail` begins where this part ends, in the same block.
    pub(super) fn is_before(&self, tail: &Self) -> bool {
        let (first, second) = (self.memory(), tail.memory());
        match (&first.storage, &second.storage) {
            (Some(Storage::Part(split, start)), Some(Storage::Part(other, next))) => {
                Arc::ptr_eq(split, other) && start + first.len * size_of::<T>() == *next
            }
            // Two empty buffers join. Two whole blocks never do.
            (None, None) => true,
            _ => false,
        }
    }

    /// The same memory with `len` elements of another type.
    ///
    /// # Safety
    /// `len` elements of `U` have the bytes of all elements of `T`, which are values of `U`, and
    /// may begin at the address.
    pub(super) unsafe fn with_elements<U>(self, len: usize) -> PinnedBuffer<U, P> {
        let memory = Memory {
            len,
            ..self.into_memory()
        };
        // SAFETY: PINNED-1 and PINNED-2 hold by this function's contract: the elements of `U` have
        // the bytes that `self` owned. `at` and the place do not change (PINNED-3, PINNED-4).
        unsafe { PinnedBuffer::new(memory) }
    }

    /// Tells a checker that the host may access the elements from now on, or could until now.
    #[cold]
    fn tell_host_has(&self, ToHost { passed, access }: ToHost) {
        // Cannot overflow: an allocation has this size.
        let bytes = self.len() * size_of::<T>();
        if bytes > 0 {
            let address = self.base().cast();
            self.memory().core.tools().hint(Hint::HostAccess {
                address,
                bytes,
                access,
                passed,
            });
        }
    }

    /// The same memory in another place.
    ///
    /// # Safety
    /// PINNED-3 and PINNED-4 hold for `Q` and `at`.
    #[inline]
    unsafe fn recast<Q>(self, at: Option<StreamRef>) -> PinnedBuffer<T, Q> {
        let memory = Memory {
            at,
            ..self.into_memory()
        };
        // SAFETY: PINNED-1 and PINNED-2 held for `self`. PINNED-3 and PINNED-4 hold by this
        // function's contract.
        unsafe { PinnedBuffer::new(memory) }
    }
}

impl<T, D: Live> PinnedBuffer<T, Idle<D>> {
    /// A buffer of foreign memory, which `foreign` gives back.
    ///
    /// # Safety
    /// PINNED-1 to PINNED-3 hold for `start` and `len`. PINNED-1 holds until `foreign` gives the
    /// memory back.
    pub(crate) unsafe fn from_foreign_at(
        core: &Arc<DeviceCore>,
        start: NonNull<T>,
        len: usize,
        passed: CallSite,
        foreign: Foreign,
    ) -> Self {
        // If there are no bytes, any aligned address serves, and the caller's address may not be
        // aligned.
        let start = if len * size_of::<T>() == 0 {
            NonNull::dangling()
        } else {
            start
        };
        let block = PinnedBlock::Foreign(start.as_ptr().expose_provenance(), foreign);
        let memory = Memory {
            storage: Some(Storage::Part(Arc::new(SplitPinned::new(block)), 0)),
            len,
            at: None,
            core: Arc::clone(core),
        };
        // SAFETY: PINNED-1 to PINNED-3 hold by this function's contract. PINNED-4 demands nothing
        // of `Idle`.
        let buffer = unsafe { Self::new(memory) };
        buffer.tell_host_has(ToHost::writes(passed));
        buffer
    }

    /// The same memory, of the device of `core`.
    ///
    /// # Safety
    /// `E` is the tag of the device of `core`. Both devices have the same backend.
    pub(crate) unsafe fn with_core<E: Live>(self, core: &Arc<DeviceCore>) -> PinnedBuffer<T, Idle<E>> {
        let memory = Memory {
            core: Arc::clone(core),
            ..self.into_memory()
        };
        // SAFETY: PINNED-1 and PINNED-2 held for `self`, whose memory is page-locked for every GPU.
        // PINNED-3: `self` was idle, so `at` is `None`. PINNED-4 demands nothing of `Idle`.
        unsafe { PinnedBuffer::new(memory) }
    }

    /// The device whose pool the memory belongs to.
    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.memory().core
    }
}

impl<T, D: Live> Deref for PinnedBuffer<T, Idle<D>> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: PINNED-1 to PINNED-3: the memory is mapped, initialised and aligned to a page,
        // and no work of the GPU uses it.
        unsafe { std::slice::from_raw_parts(self.base().as_ptr(), self.len()) }
    }
}

impl<T, D: Live> DerefMut for PinnedBuffer<T, Idle<D>> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the buffer is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.base().as_ptr(), self.len()) }
    }
}

impl<T, S: StreamTag> Deref for PinnedBuffer<T, S> {
    type Target = PinnedSlice<T, S>;

    #[inline]
    fn deref(&self) -> &PinnedSlice<T, S> {
        // SAFETY: PINNED-1 and PINNED-4 give PINNED-SLICE-1 for as long as the buffer is borrowed.
        unsafe { PinnedSlice::from_raw(self.address(), self.len()) }
    }
}

impl<T, S: StreamTag> DerefMut for PinnedBuffer<T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut PinnedSlice<T, S> {
        // SAFETY: as above, and the buffer is borrowed uniquely (PINNED-SLICE-2).
        unsafe { PinnedSlice::from_raw_mut(self.address(), self.len()) }
    }
}

impl Memory {
    /// Gives the block of a dropped buffer back, behind the present end of its stream.
    fn give_back(self) {
        let Self {
            storage, at, core, ..
        } = self;
        match (storage, at) {
            (None, _) => {}
            (Some(Storage::Whole(block)), None) => core.pinned().give_back(block, Fence::DONE),
            (Some(Storage::Whole(block)), Some(at)) => {
                // PINNED-3: without a recorded event nothing says when the GPU is done with the
                // block (obligation 4). It is then leaked.
                let block = Leaked::new(block);
                if let Ok(lease) = core.events().record(at, false) {
                    core.pinned().give_back(block.take_back(), lease.into());
                }
            }
            (Some(Storage::Part(split, _)), at) => split.end(&core, |ended| {
                if let Some(at) = at {
                    // PINNED-3: every use of the part is ordered before this event.
                    ended.on(core.events(), at);
                }
            }),
        }
    }
}

// SAFETY: there is one part, which every method converts. `&` gives no way to write it.
unsafe impl<T, D: DeviceTag> Bundle for PinnedBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = PinnedBuffer<T, S>;
    type View<'v, S: StreamTag> = PinnedViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = PinnedView<'v, T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> PinnedBuffer<T, S> {
        // SAFETY: PINNED-3 and PINNED-4 hold by the contract of `attach`: every use is ordered
        // before the present end of `at`, which is the stream `S`.
        unsafe { self.recast(Some(at)) }
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: PinnedBuffer<T, S>) -> Self {
        // SAFETY: PINNED-3 holds once every use is over. By the contract of `idle_from` the buffer
        // is neither used nor dropped earlier. PINNED-4 demands nothing of `Idle`.
        unsafe { on.recast(None) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> PinnedViewMut<'v, T, S> {
        // SAFETY: the contract of `view` is PINNED-SLICE-1 and PINNED-SLICE-2 for `'v` and `S`.
        unsafe { PinnedViewMut::new(self.address(), self.len()) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> PinnedView<'v, T, S> {
        // SAFETY: the contract of `by_ref` is PINNED-SLICE-1 for `'v` and `S`.
        unsafe { PinnedView::new(self.address(), self.len()) }
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // If the record of an event unwinds, the memory is leaked.
        let memory = Leaked::new(self.into_memory());
        let fence = fence.share();
        let Memory { storage, core, .. } = memory.take_back();
        match storage {
            None => {}
            Some(Storage::Whole(block)) => core.pinned().give_back(block, fence),
            Some(Storage::Part(split, _)) => split.end(&core, |ended| ended.behind(fence)),
        }
    }

    #[inline]
    fn note_host_access(&self, passed: ToHost) {
        if self.memory().core.is_checked() {
            self.tell_host_has(passed);
        }
    }
}

// SAFETY: there is one part, and `S` owns it.
unsafe impl<T, S: StreamTag> OwnedBy<S> for PinnedBuffer<T, S> {
    type Idle = PinnedBuffer<T, Idle<S::Device>>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        // SAFETY: as in `idle_from`: PINNED-3 holds once every use is over, and by the contract of
        // `detach` the buffer is neither used nor dropped earlier.
        unsafe { self.recast(None) }
    }
}
