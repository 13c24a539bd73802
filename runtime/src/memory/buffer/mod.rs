//! [`DeviceBuffer`]: an owner of device memory.

mod def;

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub use def::DeviceBuffer;
use def::Memory;

use super::Element;
use super::foreign::Foreign;
use super::parts::SplitBlock;
use super::slice::{DANGLING, DeviceSlice};
use super::view::{DeviceView, DeviceViewMut};
use crate::device::core::DeviceCore;
use crate::error::{Error, Refused, Result};
use crate::memory::bundle::{Bundle, OwnedBy};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::tag::{DeviceTag, Idle, Place, StreamTag};
use cuda_rt_driver::DeviceAddress;

impl<T, P> fmt::Debug for DeviceBuffer<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceBuffer({:#x}, {} elements)",
            self.memory().address.0,
            self.memory().len
        )
    }
}

impl<T, P> DeviceBuffer<T, P> {
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

    pub(crate) fn address(&self) -> DeviceAddress {
        self.memory().address
    }

    pub(crate) fn core(&self) -> &DeviceCore {
        &self.memory().core
    }

    /// # Safety
    /// BUFFER-1 to BUFFER-3 hold, but for the address of 0 bytes.
    pub(crate) unsafe fn from_raw_at(
        core: &Arc<DeviceCore>,
        at: StreamRef,
        address: DeviceAddress,
        len: usize,
    ) -> Self {
        let empty = len == 0 || size_of::<T>() == 0;
        let memory = Memory {
            address: if empty { DANGLING } else { address },
            len,
            at,
            core: Arc::clone(core),
            split: None,
        };
        // SAFETY: this function's own contract; where there are no bytes the address dangles, as
        // BUFFER-1 asks.
        unsafe { Self::new(memory) }
    }

    /// The same, of memory that `foreign` gives back instead of being freed.
    ///
    /// # Safety
    /// As [`from_raw_at`](Self::from_raw_at).
    pub(crate) unsafe fn from_foreign_at(
        core: &Arc<DeviceCore>,
        at: StreamRef,
        address: DeviceAddress,
        len: usize,
        foreign: Foreign,
    ) -> Self {
        // SAFETY: the same contract.
        let mut memory = unsafe { Self::from_raw_at(core, at, address, len) }.into_memory();
        let bytes = len * size_of::<T>();
        memory.split = Some(Arc::new(SplitBlock::new(memory.address, bytes, Some(foreign))));
        // SAFETY: BUFFER-1: all of a foreign block; BUFFER-2 and BUFFER-3 held of the buffer that
        // it was taken from.
        unsafe { Self::new(memory) }
    }

    /// Splits in two at element `mid`: keeps the elements before it, and returns an owner of the
    /// rest. No GPU work.
    ///
    /// Each half goes its own way from here: to another stream, to a thread, or out of use. They
    /// come together again with [`join`](Self::join). The block they share is freed once the last
    /// of them is dropped, after the last uses of all, in whatever order they are dropped; a half
    /// that is leaked keeps all of it. Views, which borrow, are cheaper where the halves stay with
    /// one stream: [`DeviceSlice::split_at_mut`].
    ///
    /// Counterexample that it exists for: copying the first half back while the second is still
    /// computed. With one owner the download stream would have to wait for all of it; with two
    /// views on two streams nothing would say when the block may be freed.
    ///
    /// # Hazards prevented
    /// H11 (the halves do not overlap), H21.
    ///
    /// # Panics
    /// If `mid > len`.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; pub Download; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    /// let mut first = compute.alloc_zeroed::<f32>(1024)?;
    /// let mut second = first.split_off(512);
    /// compute.fill(&mut first, 1.0)?;
    /// let first = download.acquire(compute.release(first)?)?; // its copy back does not wait for what follows
    /// compute.fill(&mut second, 2.0)?;
    /// let whole = compute.acquire(download.release(first)?)?.join(second)?;
    /// assert_eq!(whole.len(), 1024);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn split_off(&mut self, mid: usize) -> Self {
        let len = self.len();
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        let owned = self.address() != DANGLING;
        // SAFETY: BUFFER-1: the halves are parts of what was one owner's, which keeps the first;
        // BUFFER-2 and BUFFER-3 name neither.
        let memory = unsafe { self.memory_mut() };
        if owned && memory.split.is_none() {
            let bytes = len * size_of::<T>();
            memory.split = Some(Arc::new(SplitBlock::new(memory.address, bytes, None)));
        }
        memory.len = mid;
        let rest = Memory {
            address: if owned {
                DeviceAddress(memory.address.0 + (mid * size_of::<T>()) as u64)
            } else {
                DANGLING
            },
            len: len - mid,
            at: memory.at,
            core: Arc::clone(&memory.core),
            split: memory.split.clone(),
        };
        // SAFETY: BUFFER-1: the second half of it, and BUFFER-2 and BUFFER-3 held of the whole.
        unsafe { Self::new(rest) }
    }

    /// Drops all but the memory, which the caller has taken.
    ///
    /// # Panics
    /// If it is a part of a block, which is no one's to free, or foreign, which has someone to give
    /// it back to.
    #[track_caller]
    pub(crate) fn forget_memory(self) {
        assert!(
            self.memory().split.is_none(),
            "a part of a block cannot be given away: join it with the rest first; nor can foreign memory, which goes back by itself"
        );
        drop(self.into_memory());
    }

    /// Drops all but the memory, which is never freed: work that no one knows the end of may use
    /// it.
    pub(crate) fn leak(self) {
        // The block of a part is not freed either, as long as this holds it.
        std::mem::forget(self.into_memory().split);
    }

    /// Where the memory is freed if no stream acquires it again: where it was, but for an adopted
    /// stream, which may be gone by then. The reaper serves as well once every use is over, which
    /// is when anyone frees there.
    #[inline]
    fn at_when_idle(&self) -> StreamRef {
        let Memory { at, core, .. } = self.memory();
        if at.id.is_adopted() { core.reaper() } else { *at }
    }

    /// Joins two parts of one block that lie side by side, `tail` after this one. No GPU work. A
    /// block that is whole again is as if it had never been split.
    ///
    /// # Errors
    /// [`Error::NotAdjacent`] if they are not; both are then dropped, in stream order.
    /// [`try_join`](Self::try_join) gives them back.
    pub fn join(self, tail: Self) -> Result<Self> {
        Ok(self.try_join(tail)?)
    }

    /// As [`join`](Self::join), giving both back when they do not lie side by side.
    ///
    /// # Errors
    /// [`Refused`] with both.
    pub fn try_join(self, tail: Self) -> Result<Self, Refused<(Self, Self)>> {
        let (first, second) = (self.memory(), tail.memory());
        let adjacent = match (&first.split, &second.split) {
            (Some(block), Some(other)) => Arc::ptr_eq(block, other) && self.end() == second.address,
            // Nothing joins nothing; two whole allocations are never one.
            (None, None) => first.address == DANGLING && second.address == DANGLING,
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
        let mut memory = self.into_memory();
        memory.len = len;
        if let Some(block) = &mut memory.split
            && block.is_whole(memory.address, len * size_of::<T>())
        {
            memory.split = None;
        }
        // SAFETY: BUFFER-1: both were owned, and lie side by side. BUFFER-2: of a stream, both are
        // at its end; idle, nothing of either is pending. BUFFER-3: of both.
        Ok(unsafe { Self::new(memory) })
    }

    /// The address after the last element.
    fn end(&self) -> DeviceAddress {
        DeviceAddress(self.address().0 + (self.len() * size_of::<T>()) as u64)
    }

    /// The same memory as another type or of another place.
    ///
    /// # Safety
    /// `U` has the size of `T`, and the memory may be read as `U`; BUFFER-2 and BUFFER-3 hold for
    /// `Q` and `at`.
    #[inline]
    unsafe fn recast<U, Q>(self, at: StreamRef) -> DeviceBuffer<U, Q> {
        let memory = Memory {
            at,
            ..self.into_memory()
        };
        // SAFETY: BUFFER-1 held of `self`, whose elements have the size of `U`; BUFFER-2 and
        // BUFFER-3 by this function's contract.
        unsafe { DeviceBuffer::new(memory) }
    }
}

impl Memory {
    /// # Safety
    /// BUFFER-1 and BUFFER-2 hold.
    unsafe fn free(self) {
        let Self {
            address,
            len,
            at,
            core,
            split,
        } = self;
        if let Some(block) = split {
            return block.end(&core, |ended| {
                if len != 0 {
                    // BUFFER-2: every use of the part is ordered before this event.
                    ended.on(core.events(), at);
                }
            });
        }
        if address == DANGLING {
            return;
        }
        // Where an ordering could not be made BUFFER-2 says nothing of the order, and the memory is
        // leaked.
        if let Ok(driver) = core.ordered() {
            // SAFETY: BUFFER-1 and BUFFER-2: every use is ordered before this place in `at`, which
            // the core keeps. An error leaks.
            let _ = unsafe { driver.free(address, at.raw) };
        }
    }
}

impl<T, S> DeviceBuffer<MaybeUninit<T>, S> {
    /// Claims that all of it has been written, or is before anything enqueued later reads it.
    ///
    /// Rarely needed: [`Stream::init_from`](crate::Stream::init_from),
    /// [`init_from_host`](crate::Stream::init_from_host) and
    /// [`init_filled`](crate::Stream::init_filled) write and convert in one step.
    ///
    /// # Safety
    /// Work that is already in the order of this buffer's stream writes every element.
    pub unsafe fn assume_init(self) -> DeviceBuffer<T, S>
    where
        T: Element,
    {
        let at = self.memory().at;
        // SAFETY: `MaybeUninit<T>` has the size of `T`; the caller proves the rest.
        unsafe { self.recast(at) }
    }
}

// Of idle buffers too: what no stream owns is then refused by `ReadBy` and `WriteBy`, which say
// what to do, and not as another type.
impl<T, P: Place> Deref for DeviceBuffer<T, P> {
    type Target = DeviceSlice<T, P>;

    #[inline]
    fn deref(&self) -> &DeviceSlice<T, P> {
        // SAFETY: BUFFER-1 and BUFFER-3 give SLICE-1 for as long as the buffer is borrowed.
        unsafe { DeviceSlice::from_raw(self.address(), self.len()) }
    }
}

impl<T, P: Place> DerefMut for DeviceBuffer<T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut DeviceSlice<T, P> {
        // SAFETY: as above, and the buffer is borrowed uniquely (SLICE-2).
        unsafe { DeviceSlice::from_raw_mut(self.address(), self.len()) }
    }
}

// SAFETY: one part, which every method converts; `&` gives no way to write.
unsafe impl<T, D: DeviceTag> Bundle for DeviceBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = DeviceBuffer<T, S>;
    type View<'v, S: StreamTag> = DeviceViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = DeviceView<'v, T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> DeviceBuffer<T, S> {
        // SAFETY: the caller has ordered every use before the present end of `at`, which is `S`.
        unsafe { self.recast(at) }
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: DeviceBuffer<T, S>) -> Self {
        let at = on.at_when_idle();
        // SAFETY: BUFFER-2 holds once every use is over, and the caller uses and drops it no
        // earlier; BUFFER-3 asks nothing of `Idle`.
        unsafe { on.recast(at) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> DeviceViewMut<'v, T, S> {
        // SAFETY: the caller proves SLICE-1 and SLICE-2 for `'v` and `S`.
        unsafe { DeviceViewMut::new(self.address(), self.len()) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> DeviceView<'v, T, S> {
        // SAFETY: the caller proves SLICE-1 for `'v` and `S`.
        unsafe { DeviceView::new(self.address(), self.len()) }
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // Leaked from here on, unless it is freed.
        let memory = self.into_memory();
        let Memory {
            address,
            len,
            core,
            split,
            ..
        } = memory;
        if let Some(block) = split {
            // Waited for when the last part is dropped.
            return block.end(&core, |ended| {
                if len != 0 {
                    ended.behind(fence.share());
                }
            });
        }
        let at = core.reaper();
        // A failed wait is not a finished wait (obligation 4): the memory is leaked then, and the
        // device is not.
        if fence.wait_on(at).is_ok() {
            let memory = Memory {
                address,
                len,
                at,
                core,
                split: None,
            };
            // SAFETY: BUFFER-1 held of the buffer; BUFFER-2: every use is over once the fence is,
            // which the reaper waits for.
            unsafe { memory.free() }
        }
    }
}

// SAFETY: one part, owned by `S`.
unsafe impl<T, S: StreamTag> OwnedBy<S> for DeviceBuffer<T, S> {
    type Idle = DeviceBuffer<T, Idle<S::Device>>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        let at = self.at_when_idle();
        // SAFETY: as in `back`.
        unsafe { self.recast(at) }
    }
}
