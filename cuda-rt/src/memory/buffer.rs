use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::foreign::Foreign;
use super::parts::SplitBlock;
use super::resource::{OwnedBy, Resource};
use super::slice::{DANGLING, DeviceSlice};
use super::view::{DeviceView, DeviceViewMut};
use super::{Element, size_in_bytes};
use crate::core::DeviceCore;
use crate::driver::DeviceAddress;
use crate::error::{During, Error, Refused, Result};
use crate::fence::{Fence, StreamAt};
use crate::place::{DeviceTag, Idle, Place, StreamTag};

/// Owns `len` elements of device memory; `P` says which stream they belong to, or [`Idle`].
///
/// It dereferences to a [`DeviceSlice`] of its place, which kernels and copies of that stream take; of an idle one no stream takes
/// it: it must be [adopted](crate::Stream::adopt) first. It moves between streams through a [`Handoff`](crate::Handoff) only.
///
/// Dropping it frees in the order of the stream that it last belonged to (`cuMemFreeAsync`), after all work that uses
/// it, and does not block (H21).
///
/// # Hazards prevented
/// H01–H06, H11, H21, H22, H36: see [`Stream::release`](crate::Stream::release).
///
/// # Invariants
/// B1. `address` is that of `len` elements that nothing else owns: all of an allocation where `split` is `None`, and a part of
///     the allocation of `split`, or all of a foreign one, otherwise; dangling where the allocation would have 0 bytes.
/// B2. Every use of it that is enqueued is ordered before the present end of the stream `at`, or is over; or the core is broken.
/// B3. While `P` is a stream tag, `at` is that stream.
pub struct DeviceBuffer<T, P = Idle> {
    address: DeviceAddress,
    len: usize,
    at: StreamAt,
    core: Arc<DeviceCore>,
    split: Option<Arc<SplitBlock>>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

impl<T, P> fmt::Debug for DeviceBuffer<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({:#x}, {} elements)", self.address.0, self.len)
    }
}

impl<T, P> DeviceBuffer<T, P> {
    /// Length in elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn address(&self) -> DeviceAddress {
        self.address
    }

    pub(crate) fn core(&self) -> &DeviceCore {
        &self.core
    }

    /// # Safety
    /// B1 to B3, but for the address of 0 bytes.
    pub(crate) unsafe fn from_raw_at(
        core: &Arc<DeviceCore>,
        at: StreamAt,
        address: DeviceAddress,
        len: usize,
    ) -> Self {
        let empty = len == 0 || size_of::<T>() == 0;
        Self {
            address: if empty { DANGLING } else { address },
            len,
            at,
            core: Arc::clone(core),
            split: None,
            marker: PhantomData,
        }
    }

    /// The same, of memory that `foreign` gives back instead of being freed.
    ///
    /// # Safety
    /// As [`from_raw_at`](Self::from_raw_at).
    pub(crate) unsafe fn from_foreign_at(
        core: &Arc<DeviceCore>,
        at: StreamAt,
        address: DeviceAddress,
        len: usize,
        foreign: Foreign,
    ) -> Self {
        // SAFETY: the caller's.
        let mut buffer = unsafe { Self::from_raw_at(core, at, address, len) };
        let bytes = len * size_of::<T>();
        buffer.split = Some(Arc::new(SplitBlock::new(buffer.address, bytes, Some(foreign))));
        buffer
    }

    /// Splits in two at element `mid`: keeps the elements before it, and returns an owner of the rest. No GPU work.
    ///
    /// Each half goes its own way from here: to another stream, to a thread, or out of use. They come together again with
    /// [`join`](Self::join). The block they share is freed once the last of them is dropped, after the last uses of all, in whatever
    /// order they are dropped; a half that is leaked keeps all of it. Views, which borrow, are cheaper where the halves stay
    /// with one stream: [`DeviceSlice::split_at_mut`].
    ///
    /// Counterexample that it exists for: copying the first half back while the second is still computed. With one
    /// owner the download stream would have to wait for all of it; with two views on two streams nothing
    /// would say when the block may be freed.
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
        let len = self.len;
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        let owned = self.address != DANGLING;
        if owned && self.split.is_none() {
            self.split = Some(Arc::new(SplitBlock::new(
                self.address,
                len * size_of::<T>(),
                None,
            )));
        }
        // B1: the halves are parts of what was one owner's.
        self.len = mid;
        Self {
            address: if owned { self.end() } else { DANGLING },
            len: len - mid,
            at: self.at,
            core: Arc::clone(&self.core),
            split: self.split.clone(),
            marker: PhantomData,
        }
    }

    /// Drops all but the memory, which the caller has taken.
    ///
    /// # Panics
    /// If it is a part of a block, which is no one's to free, or foreign, which has someone to give it back to.
    #[track_caller]
    pub(crate) fn forget_memory(mut self) {
        assert!(
            self.split.is_none(),
            "a part of a block cannot be given away: join it with the rest first; nor can foreign memory, which goes back by itself"
        );
        self.address = DANGLING;
    }

    /// Drops all but the memory, which is never freed: work that no one knows the end of may use it.
    pub(crate) fn leak(mut self) {
        // The block of a part is not freed either, as long as this holds it.
        std::mem::forget(self.split.take());
        self.address = DANGLING;
    }

    /// Where the memory is freed if no stream acquires it again: where it was, but for an adopted stream, which may be gone by
    /// then. The reaper serves as well once every use is over, which is when anyone frees there.
    #[inline]
    fn at_when_idle(&self) -> StreamAt {
        if self.at.id.is_adopted() {
            self.core.reaper()
        } else {
            self.at
        }
    }

    /// Joins two parts of one block that lie side by side, `tail` after this one. No GPU work. A block that is whole again is as
    /// if it had never been split.
    ///
    /// # Errors
    /// [`Error::NotAdjacent`] if they are not; both are then dropped, in stream order. [`try_join`](Self::try_join) gives them
    /// back.
    pub fn join(self, tail: Self) -> Result<Self> {
        Ok(self.try_join(tail)?)
    }

    /// As [`join`](Self::join), giving both back when they do not lie side by side.
    ///
    /// # Errors
    /// [`Refused`] with both.
    pub fn try_join(self, tail: Self) -> Result<Self, Refused<(Self, Self)>> {
        let adjacent = match (&self.split, &tail.split) {
            (Some(block), Some(other)) => Arc::ptr_eq(block, other) && self.end() == tail.address,
            // Nothing joins nothing; two whole allocations are never one.
            (None, None) => self.address == DANGLING && tail.address == DANGLING,
            _ => false,
        };
        let (Some(len), true) = (self.len.checked_add(tail.len), adjacent) else {
            return Err(Refused {
                error: Error::NotAdjacent,
                value: (self, tail),
            });
        };
        let (mut joined, mut tail) = (self, tail);
        // B2: of a stream, both are at its end; idle, nothing of either is pending.
        joined.len = len;
        (tail.split, tail.address) = (None, DANGLING);
        drop(tail);
        if let Some(block) = &mut joined.split
            && block.is_whole(joined.address, len * size_of::<T>())
        {
            joined.split = None;
        }
        Ok(joined)
    }

    /// The address after the last element.
    fn end(&self) -> DeviceAddress {
        DeviceAddress(self.address.0 + (self.len * size_of::<T>()) as u64)
    }

    /// The same memory as another type or of another place.
    ///
    /// # Safety
    /// `U` has the size of `T`, and the memory may be read as `U`; B2 and B3 hold for `Q` and `at`.
    #[inline]
    unsafe fn recast<U, Q>(self, at: StreamAt) -> DeviceBuffer<U, Q> {
        let old = std::mem::ManuallyDrop::new(self);
        // SAFETY: `old` is not dropped, so the reference count moves with this copy.
        let core = unsafe { std::ptr::read(&old.core) };
        // SAFETY: as above.
        let split = unsafe { std::ptr::read(&old.split) };
        DeviceBuffer {
            address: old.address,
            len: old.len,
            at,
            core,
            split,
            marker: PhantomData,
        }
    }
}

impl<T, S> DeviceBuffer<MaybeUninit<T>, S> {
    /// Allocates on the stream `at`.
    pub(crate) fn uninit(
        core: &Arc<DeviceCore>,
        at: StreamAt,
        len: usize,
        during: &'static str,
    ) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len, during)?;
        let address = if bytes == 0 {
            DANGLING
        } else {
            // SAFETY: the core keeps its streams, and the size is not 0.
            unsafe { core.ordered().during(during)?.alloc(bytes, at.raw) }.during(during)?
        };
        Ok(Self {
            address,
            len,
            at,
            core: Arc::clone(core),
            split: None,
            marker: PhantomData,
        })
    }

    /// Claims that all of it has been written, or is before anything enqueued later reads it.
    ///
    /// Rarely needed: [`Stream::init_from`](crate::Stream::init_from), [`init_from_host`](crate::Stream::init_from_host) and
    /// [`init_filled`](crate::Stream::init_filled) write and convert in one step.
    ///
    /// # Safety
    /// Work that is already in the order of this buffer's stream writes every element.
    pub unsafe fn assume_init(self) -> DeviceBuffer<T, S>
    where
        T: Element,
    {
        let at = self.at;
        // SAFETY: `MaybeUninit<T>` has the size of `T`; the caller proves the rest.
        unsafe { self.recast(at) }
    }
}

// Of idle buffers too: what no stream owns is then refused by `ReadBy` and `WriteBy`, which say what to do, and not as another type.
impl<T, P: Place> Deref for DeviceBuffer<T, P> {
    type Target = DeviceSlice<T, P>;

    #[inline]
    fn deref(&self) -> &DeviceSlice<T, P> {
        // SAFETY: B1 and B3 give S1 for as long as the buffer is borrowed.
        unsafe { DeviceSlice::from_raw(self.address, self.len) }
    }
}

impl<T, P: Place> DerefMut for DeviceBuffer<T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut DeviceSlice<T, P> {
        // SAFETY: as above, and the buffer is borrowed uniquely (S2).
        unsafe { DeviceSlice::from_raw_mut(self.address, self.len) }
    }
}

impl<T, P> Drop for DeviceBuffer<T, P> {
    fn drop(&mut self) {
        if let Some(block) = self.split.take() {
            let used = self.len != 0;
            return block.end(&self.core, |ended| {
                if used {
                    // B2: every use of the part is ordered before this event.
                    ended.on(self.core.events(), self.at);
                }
            });
        }
        if self.address == DANGLING {
            return;
        }
        // Where an ordering could not be made, B2 may not hold, and the memory is leaked.
        if let Ok(driver) = self.core.ordered() {
            // SAFETY: B1 and B2: every use is ordered before this place in `at`, which the core keeps. An error leaks.
            let _ = unsafe { driver.free(self.address, self.at.raw) };
        }
    }
}

// SAFETY: one part, which every method converts; `&` gives no way to write.
unsafe impl<T, D: DeviceTag> Resource for DeviceBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = DeviceBuffer<T, S>;
    type View<'v, S: StreamTag> = DeviceViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = DeviceView<'v, T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamAt) -> DeviceBuffer<T, S> {
        // SAFETY: the caller has ordered every use before the present end of `at`, which is `S`.
        unsafe { self.recast(at) }
    }

    #[inline]
    unsafe fn back<S: StreamTag>(on: DeviceBuffer<T, S>) -> Self {
        let at = on.at_when_idle();
        // SAFETY: B2 holds once every use is over, and the caller uses and drops it no earlier; B3 asks nothing of `Idle`.
        unsafe { on.recast(at) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> DeviceViewMut<'v, T, S> {
        // SAFETY: the caller proves S1 and S2 for `'v` and `S`.
        unsafe { DeviceViewMut::new(self.address, self.len) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> DeviceView<'v, T, S> {
        // SAFETY: the caller proves S1 for `'v` and `S`.
        unsafe { DeviceView::new(self.address, self.len) }
    }

    unsafe fn retire(mut self, fence: &mut Fence) {
        if let Some(block) = self.split.take() {
            self.address = DANGLING;
            let used = self.len != 0;
            // Waited for when the last part is dropped.
            return block.end(&self.core, |ended| {
                if used {
                    ended.behind(fence.share());
                }
            });
        }
        let reaper = self.core.reaper();
        // A failed wait is not a finished wait (DESIGN.md §5.4): until it is made the memory is leaked, and the device is not.
        let address = std::mem::replace(&mut self.address, DANGLING);
        if fence.wait_on(reaper).is_ok() {
            // B2 holds for the reaper from here on, and the drop frees there.
            (self.address, self.at) = (address, reaper);
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
