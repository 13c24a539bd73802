//! [`PinnedBuffer`]: an owner of page-locked memory.

mod def;

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
use super::{Element, size_in_bytes};
use crate::device::core::DeviceCore;
use crate::error::{Error, PinnedError, Refused, Result};
use crate::memory::bundle::{Bundle, OwnedBy, ToHost};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Unless;
use crate::tag::{DeviceTag, Idle, Live, StreamTag};
use cuda_rt_driver::{CallSite, DeviceAddress, Hint};

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
        match &self.memory().home {
            Some(home) => home.address().cast(),
            None => NonNull::dangling(),
        }
    }

    fn address(&self) -> DeviceAddress {
        DeviceAddress(self.base().addr().get() as u64)
    }

    /// Splits in two at element `mid`: keeps the elements before it, and returns an owner of the
    /// rest, as [`DeviceBuffer::split_off`](crate::DeviceBuffer::split_off) does. The block goes
    /// back to the pool when the last part is dropped, and is reused once the uses of all of them
    /// were seen complete (H16).
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_off(&mut self, mid: usize) -> Self {
        let len = self.len();
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        // SAFETY: PINNED-1: the halves are parts of what was one owner's, which keeps the first;
        // PINNED-2 holds of each element, and PINNED-3 and PINNED-4 name none.
        let memory = unsafe { self.memory_mut() };
        let split = memory.home.take().map(|home| match home {
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
        (memory.home, memory.len) = (part(0), mid);
        let rest = Memory {
            home: part(mid),
            len: len - mid,
            at: memory.at,
            core: Arc::clone(&memory.core),
        };
        // SAFETY: PINNED-1: the second half of it; the others held of the whole.
        unsafe { Self::new(rest) }
    }

    /// Joins two parts of one block that lie side by side, `tail` after this one. The block counts
    /// as split until it is back in the pool.
    ///
    /// # Errors
    /// [`Error::NotAdjacent`] if they are not; both are then dropped. [`try_join`](Self::try_join)
    /// gives them back.
    pub fn join(self, tail: Self) -> Result<Self> {
        Ok(self.try_join(tail)?)
    }

    /// As [`join`](Self::join), giving both back when they do not lie side by side.
    ///
    /// # Errors
    /// [`Refused`] with both.
    pub fn try_join(self, tail: Self) -> Result<Self, Refused<(Self, Self)>> {
        let (first, second) = (self.memory(), tail.memory());
        let adjacent = match (&first.home, &second.home) {
            (Some(Storage::Part(split, start)), Some(Storage::Part(other, next))) => {
                Arc::ptr_eq(split, other) && start + first.len * size_of::<T>() == *next
            }
            // Nothing joins nothing; two whole blocks are never one.
            (None, None) => true,
            _ => false,
        };
        let (Some(len), true) = (first.len.checked_add(second.len), adjacent) else {
            return Err(Refused {
                error: Error::NotAdjacent,
                value: (self, tail),
            });
        };
        // Not the last holder of a block: the first part is one.
        drop(tail.into_memory());
        let memory = Memory {
            len,
            ..self.into_memory()
        };
        // SAFETY: PINNED-1 and PINNED-2: both were owned, and lie side by side. PINNED-3: of a
        // stream, both are at its end; idle, nothing of either is pending. PINNED-4: of both.
        Ok(unsafe { Self::new(memory) })
    }

    /// Tells a checker that the host has the elements from now on, or had them until now.
    fn tell_host_has(&self, passed: CallSite) {
        // Cannot overflow: it was allocated.
        let bytes = self.len() * size_of::<T>();
        if bytes > 0 {
            let address = self.base().cast();
            self.memory().core.tools().hint(Hint::HostAccess {
                address,
                bytes,
                passed,
            });
        }
    }

    /// The same memory, of another place.
    ///
    /// # Safety
    /// PINNED-3 and PINNED-4 hold for `Q` and `at`.
    #[inline]
    unsafe fn recast<Q>(self, at: Option<StreamRef>) -> PinnedBuffer<T, Q> {
        let memory = Memory {
            at,
            ..self.into_memory()
        };
        // SAFETY: PINNED-1 and PINNED-2 held of `self`; PINNED-3 and PINNED-4 by this function's
        // contract.
        unsafe { PinnedBuffer::new(memory) }
    }
}

impl<T: Element, D: DeviceTag> PinnedBuffer<T, Idle<D>> {
    /// A block of the pool, zeroed.
    #[track_caller]
    pub(crate) fn zeroed(core: &Arc<DeviceCore>, len: usize) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len).ok_or(PinnedError::TooLarge {
            len,
            element_bytes: size_of::<T>(),
        })?;
        let block = if bytes == 0 {
            None
        } else {
            Some(core.pinned().take(bytes)?)
        };
        if let Some(block) = &block {
            // SAFETY: PINNED-1 will hold of it: at least `bytes` long, aligned to a page, and no
            // work that uses it is pending.
            unsafe { block.address().cast::<u8>().write_bytes(0, bytes) };
        }
        let memory = Memory {
            home: block.map(Storage::Whole),
            len,
            at: None,
            core: Arc::clone(core),
        };
        // SAFETY: PINNED-1: a block of the pool, which is for this buffer alone. PINNED-2: zero is
        // a value of every `Element`, which is `Pod`. PINNED-3: the pool gives out what no work
        // uses. PINNED-4 asks nothing of `Idle`.
        let buffer = unsafe { Self::new(memory) };
        buffer.tell_host_has(CallSite::here("Device::pinned"));
        Ok(buffer)
    }
}

impl<T, D: Live> PinnedBuffer<T, Idle<D>> {
    /// Owns memory of someone else's, until `foreign` gives it back.
    ///
    /// # Safety
    /// PINNED-1 to PINNED-3 hold for `start` and `len`; PINNED-1 until `foreign` gives the memory
    /// back.
    pub(crate) unsafe fn from_foreign_at(
        core: &Arc<DeviceCore>,
        start: NonNull<T>,
        len: usize,
        passed: CallSite,
        foreign: Foreign,
    ) -> Self {
        // Where there are no bytes, any aligned address will do, and the caller's may not be one.
        let start = if len * size_of::<T>() == 0 {
            NonNull::dangling()
        } else {
            start
        };
        let block = PinnedBlock::Foreign(start.as_ptr().expose_provenance(), foreign);
        let memory = Memory {
            home: Some(Storage::Part(Arc::new(SplitPinned::new(block)), 0)),
            len,
            at: None,
            core: Arc::clone(core),
        };
        // SAFETY: PINNED-1 to PINNED-3 by this function's contract; PINNED-4 asks nothing of
        // `Idle`.
        let buffer = unsafe { Self::new(memory) };
        buffer.tell_host_has(passed);
        buffer
    }

    /// The same memory, of the device of `core`.
    ///
    /// # Safety
    /// `E` is the tag of that device, whose backend is that of this one.
    pub(crate) unsafe fn with_core<E: Live>(self, core: &Arc<DeviceCore>) -> PinnedBuffer<T, Idle<E>> {
        let memory = Memory {
            core: Arc::clone(core),
            ..self.into_memory()
        };
        // SAFETY: PINNED-1 and PINNED-2 held of `self`, whose memory is page-locked for every GPU;
        // PINNED-3: it was idle, so that `at` is `None`.
        unsafe { PinnedBuffer::new(memory) }
    }

    /// The device that it is of.
    pub(crate) fn core(&self) -> &DeviceCore {
        &self.memory().core
    }
}

impl<T, D: Live> Deref for PinnedBuffer<T, Idle<D>> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: PINNED-1 to PINNED-3: mapped, initialised, aligned to a page, and no work of the
        // GPU uses it.
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
    /// Ends the uses of a buffer that is dropped, at the present end of its stream.
    fn give_back(self) {
        let Self { home, at, core, .. } = self;
        match (home, at) {
            (None, _) => {}
            (Some(Storage::Whole(block)), None) => core.pinned().give_back(block, Fence::DONE),
            (Some(Storage::Whole(block)), Some(at)) => {
                // PINNED-3: until an event is recorded, nothing says when the GPU is done with it
                // (obligation 4).
                let block = Unless::leaked(block);
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

// SAFETY: one part, which every method converts; `&` gives no way to write.
unsafe impl<T, D: DeviceTag> Bundle for PinnedBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = PinnedBuffer<T, S>;
    type View<'v, S: StreamTag> = PinnedViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = PinnedView<'v, T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> PinnedBuffer<T, S> {
        // SAFETY: the caller has ordered every use before the present end of `at`, which is `S`.
        unsafe { self.recast(Some(at)) }
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: PinnedBuffer<T, S>) -> Self {
        // SAFETY: the caller does not use or drop it until every use is over, which is when
        // PINNED-3 holds.
        unsafe { on.recast(None) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> PinnedViewMut<'v, T, S> {
        // SAFETY: the caller proves PINNED-SLICE-1 and PINNED-SLICE-2 for `'v` and `S`.
        unsafe { PinnedViewMut::new(self.address(), self.len()) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> PinnedView<'v, T, S> {
        // SAFETY: the caller proves PINNED-SLICE-1 for `'v` and `S`.
        unsafe { PinnedView::new(self.address(), self.len()) }
    }

    unsafe fn retire(self, fence: &mut Fence) {
        let Memory { home, core, .. } = self.into_memory();
        match home {
            None => {}
            Some(Storage::Whole(block)) => core.pinned().give_back(block, fence.share()),
            Some(Storage::Part(split, _)) => split.end(&core, |ended| ended.behind(fence.share())),
        }
    }

    #[inline]
    fn note_host_access(&self, passed: ToHost) {
        self.tell_host_has(passed.0);
    }
}

// SAFETY: one part, owned by `S`.
unsafe impl<T, S: StreamTag> OwnedBy<S> for PinnedBuffer<T, S> {
    type Idle = PinnedBuffer<T, Idle<S::Device>>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        // SAFETY: as in `back`.
        unsafe { self.recast(None) }
    }
}
