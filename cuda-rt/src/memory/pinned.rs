use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Index, IndexMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use super::foreign::Foreign;
use super::parts::{PinnedBlock, SplitPinned};
use super::pool::Block;
use super::range::RangeIndex;
use super::resource::{OwnedBy, Resource, ToHost};
use super::view::{PinnedView, PinnedViewMut};
use super::{Element, size_in_bytes};
use crate::core::DeviceCore;
use crate::device::Device;
use crate::driver::{DeviceAddress, Note, Passed};
use crate::error::{Error, Refused, Result};
use crate::fence::{Fence, StreamAt};
use crate::place::{DeviceTag, Idle, Live, StreamTag};

/// Owns `len` elements of page-locked host memory; `P` says which stream they belong to, or [`Idle`].
///
/// Idle it dereferences to `[T]`, and the CPU reads and writes it as any slice. On a stream it is out of the CPU's
/// reach: it dereferences to [`PinnedSlice`], which copies of that stream take (H13, H14).
///
/// It comes from a pool of the device. Dropping it gives the block back, and the pool hands it out again only when the
/// last event that covers its use was seen complete, so neither a pending copy nor a disk write that still owns it can
/// meet the next user (H16, H17). Dropping never blocks.
///
/// # Invariants
/// P1. `home` is mapped, page-locked, at least `len` elements long, and owned by nothing else.
/// P2. All bytes of the first `len` elements are initialised, to values of `T`.
/// P3. Every use by the GPU is over, or ordered before the present end of the stream `at`; over where `at` is `None`.
/// P4. While `P` is a stream tag, `at` is that stream.
pub struct PinnedBuffer<T, P = Idle> {
    /// `None` where there are no bytes, and while it is being dropped or moved to another device.
    home: Option<Home>,
    len: usize,
    at: Option<StreamAt>,
    core: Arc<DeviceCore>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

/// Where the elements are.
enum Home {
    /// All of a block.
    Whole(Block),
    /// What of a split block, or of a foreign one, begins so many bytes after its start.
    Part(Arc<SplitPinned>, usize),
}

impl Home {
    #[inline]
    fn address(&self) -> NonNull<c_void> {
        match self {
            Self::Whole(block) => block.address(),
            // SAFETY: a part begins inside its block, or at its end.
            Self::Part(split, offset) => unsafe { split.address().byte_add(*offset) },
        }
    }
}

impl<T, P> fmt::Debug for PinnedBuffer<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({:?}, {} elements)", self.base(), self.len)
    }
}

impl<T, P> PinnedBuffer<T, P> {
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

    #[inline]
    fn base(&self) -> NonNull<T> {
        match &self.home {
            Some(home) => home.address().cast(),
            None => NonNull::dangling(),
        }
    }

    fn address(&self) -> DeviceAddress {
        DeviceAddress(self.base().addr().get() as u64)
    }

    /// Splits in two at element `mid`: keeps the elements before it, and returns an owner of the rest, as
    /// [`DeviceBuffer::split_off`](crate::DeviceBuffer::split_off) does. The block goes back to the pool when the last part is
    /// dropped, and is reused once the uses of all of them were seen complete (H16).
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_off(&mut self, mid: usize) -> Self {
        let len = self.len;
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        let split = self.home.take().map(|home| match home {
            Home::Whole(block) => (Arc::new(SplitPinned::new(PinnedBlock::Pool(block))), 0),
            Home::Part(split, offset) => (split, offset),
        });
        let part = |skipped| {
            let (split, offset) = split.as_ref()?;
            Some(Home::Part(Arc::clone(split), offset + skipped * size_of::<T>()))
        };
        // P1: the halves are parts of what was one owner's.
        let tail = Self {
            home: part(mid),
            len: len - mid,
            at: self.at,
            core: Arc::clone(&self.core),
            marker: PhantomData,
        };
        (self.home, self.len) = (part(0), mid);
        tail
    }

    /// Joins two parts of one block that lie side by side, `tail` after this one. The block counts as split until it is back in
    /// the pool.
    ///
    /// # Errors
    /// [`Error::NotAdjacent`] if they are not; both are then dropped. [`try_join`](Self::try_join) gives them back.
    pub fn join(self, tail: Self) -> Result<Self> {
        Ok(self.try_join(tail)?)
    }

    /// As [`join`](Self::join), giving both back when they do not lie side by side.
    ///
    /// # Errors
    /// [`Refused`] with both.
    pub fn try_join(self, tail: Self) -> Result<Self, Refused<(Self, Self)>> {
        let adjacent = match (&self.home, &tail.home) {
            (Some(Home::Part(split, start)), Some(Home::Part(other, next))) => {
                Arc::ptr_eq(split, other) && start + self.len * size_of::<T>() == *next
            }
            // Nothing joins nothing; two whole blocks are never one.
            (None, None) => true,
            _ => false,
        };
        let (Some(len), true) = (self.len.checked_add(tail.len), adjacent) else {
            return Err(Refused {
                error: Error::NotAdjacent,
                value: (self, tail),
            });
        };
        let (mut joined, mut tail) = (self, tail);
        // P3: of a stream, both are at its end; idle, nothing of either is pending.
        joined.len = len;
        // Not the last holder: `joined` is one.
        tail.home = None;
        Ok(joined)
    }

    /// Tells a checker that the host has the elements from now on, or had them until now.
    fn tell_host_has(&self, passed: Passed) {
        // Cannot overflow: it was allocated.
        let bytes = self.len * size_of::<T>();
        if bytes > 0 {
            let address = self.base().cast();
            self.core.driver().note(Note::HostHas {
                address,
                bytes,
                passed,
            });
        }
    }

    /// The same memory, of another place.
    ///
    /// # Safety
    /// P3 and P4 hold for `Q` and `at`.
    #[inline]
    unsafe fn recast<Q>(self, at: Option<StreamAt>) -> PinnedBuffer<T, Q> {
        let old = ManuallyDrop::new(self);
        // SAFETY: `old` is not dropped, so the memory moves with this copy.
        let home = unsafe { std::ptr::read(&old.home) };
        // SAFETY: as above, for the reference count.
        let core = unsafe { std::ptr::read(&old.core) };
        PinnedBuffer {
            home,
            len: old.len,
            at,
            core,
            marker: PhantomData,
        }
    }
}

impl<T: Element, D: DeviceTag> PinnedBuffer<T, Idle<D>> {
    /// A block of the pool, zeroed.
    #[track_caller]
    pub(crate) fn zeroed(core: &Arc<DeviceCore>, len: usize) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len, "Device::pinned")?;
        let block = if bytes == 0 {
            None
        } else {
            Some(core.pinned().take(bytes)?)
        };
        if let Some(block) = &block {
            // SAFETY: P1: at least `bytes` long, aligned to a page, and no work that uses it is pending.
            unsafe { block.address().cast::<u8>().write_bytes(0, bytes) };
        }
        // P2: zero is a value of every `Element`, which is `Pod`.
        let buffer = Self {
            home: block.map(Home::Whole),
            len,
            at: None,
            core: Arc::clone(core),
            marker: PhantomData,
        };
        buffer.tell_host_has(Passed::here("Device::pinned"));
        Ok(buffer)
    }
}

impl<T, D: Live> PinnedBuffer<T, Idle<D>> {
    /// Owns memory of someone else's, until `foreign` gives it back.
    ///
    /// # Safety
    /// P1 to P3 hold for `start` and `len`; P1 until `foreign` gives the memory back.
    pub(crate) unsafe fn from_foreign_at(
        core: &Arc<DeviceCore>,
        start: NonNull<T>,
        len: usize,
        passed: Passed,
        foreign: Foreign,
    ) -> Self {
        // Where there are no bytes, any aligned address will do, and the caller's may not be one.
        let start = if len * size_of::<T>() == 0 {
            NonNull::dangling()
        } else {
            start
        };
        let block = PinnedBlock::Foreign(start.as_ptr().expose_provenance(), foreign);
        let buffer = Self {
            home: Some(Home::Part(Arc::new(SplitPinned::new(block)), 0)),
            len,
            at: None,
            core: Arc::clone(core),
            marker: PhantomData,
        };
        buffer.tell_host_has(passed);
        buffer
    }

    /// Moves idle memory to another device: it is page-locked for every GPU of the process, and bound to none.
    ///
    /// # Errors
    /// [`Error::OtherBackend`] between a GPU and a simulated device; the buffer comes back.
    pub fn for_device<E: Live>(
        self,
        device: &Device<E>,
    ) -> std::result::Result<PinnedBuffer<T, Idle<E>>, Refused<Self>> {
        if self.core.driver().properties().backend != device.properties().backend {
            return Err(Refused {
                error: Error::OtherBackend,
                value: self,
            });
        }
        let mut moved = self;
        Ok(PinnedBuffer {
            home: moved.home.take(),
            len: moved.len,
            at: None,
            core: Arc::clone(device.core()),
            marker: PhantomData,
        })
    }
}

impl<T, D: Live> Deref for PinnedBuffer<T, Idle<D>> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: P1 to P3: mapped, initialised, aligned to a page, and no work of the GPU uses it.
        unsafe { std::slice::from_raw_parts(self.base().as_ptr(), self.len) }
    }
}

impl<T, D: Live> DerefMut for PinnedBuffer<T, Idle<D>> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the buffer is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.base().as_ptr(), self.len) }
    }
}

impl<T, S: StreamTag> Deref for PinnedBuffer<T, S> {
    type Target = PinnedSlice<T, S>;

    #[inline]
    fn deref(&self) -> &PinnedSlice<T, S> {
        // SAFETY: P1 and P4 give L1 for as long as the buffer is borrowed.
        unsafe { PinnedSlice::from_raw(self.address(), self.len) }
    }
}

impl<T, S: StreamTag> DerefMut for PinnedBuffer<T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut PinnedSlice<T, S> {
        // SAFETY: as above, and the buffer is borrowed uniquely (L2).
        unsafe { PinnedSlice::from_raw_mut(self.address(), self.len) }
    }
}

impl<T, P> Drop for PinnedBuffer<T, P> {
    fn drop(&mut self) {
        match (self.home.take(), self.at) {
            (None, _) => {}
            (Some(Home::Whole(block)), None) => self.core.pinned().give_back(block, Fence::DONE),
            (Some(Home::Whole(block)), Some(at)) => match self.core.events().record(at, false) {
                Ok(lease) => self.core.pinned().give_back(block, lease.into()),
                // Nothing says when the GPU is done with it (DESIGN.md §5.4).
                Err(_) => std::mem::forget(block),
            },
            (Some(Home::Part(split, _)), at) => split.end(&self.core, |ended| {
                if let Some(at) = at {
                    // P3: every use of the part is ordered before this event.
                    ended.on(self.core.events(), at);
                }
            }),
        }
    }
}

// SAFETY: one part, which every method converts; `&` gives no way to write.
unsafe impl<T, D: DeviceTag> Resource for PinnedBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = PinnedBuffer<T, S>;
    type View<'v, S: StreamTag> = PinnedViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = PinnedView<'v, T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamAt) -> PinnedBuffer<T, S> {
        // SAFETY: the caller has ordered every use before the present end of `at`, which is `S`.
        unsafe { self.recast(Some(at)) }
    }

    #[inline]
    unsafe fn back<S: StreamTag>(on: PinnedBuffer<T, S>) -> Self {
        // SAFETY: the caller does not use or drop it until every use is over, which is when P3 holds.
        unsafe { on.recast(None) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> PinnedViewMut<'v, T, S> {
        // SAFETY: the caller proves L1 and L2 for `'v` and `S`.
        unsafe { PinnedViewMut::new(self.address(), self.len) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> PinnedView<'v, T, S> {
        // SAFETY: the caller proves L1 for `'v` and `S`.
        unsafe { PinnedView::new(self.address(), self.len) }
    }

    unsafe fn retire(mut self, fence: &mut Fence) {
        match self.home.take() {
            None => {}
            Some(Home::Whole(block)) => self.core.pinned().give_back(block, fence.share()),
            Some(Home::Part(split, _)) => split.end(&self.core, |ended| ended.behind(fence.share())),
        }
    }

    #[inline]
    fn host_has(&self, passed: ToHost) {
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

/// A view of pinned host memory that a stream owns: the CPU can reach nothing through it.
///
/// # Invariants
/// L1. A reference's address is that of `len` elements of page-locked memory, initialised, and of the place `P` for the
///     reference's lifetime; not null where they are 0 bytes.
/// L2. `&mut` references are unique among all references to overlapping memory.
/// L3. Nothing is read or written through it on the host.
#[repr(transparent)]
pub struct PinnedSlice<T, P> {
    marker: PhantomData<(T, fn(P) -> P)>,
    elements: [()],
}

impl<T, P> fmt::Debug for PinnedSlice<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedSlice({:?}, {} elements)", self.address(), self.len())
    }
}

impl<T, P> PinnedSlice<T, P> {
    /// # Safety
    /// L1 holds for `'a`, and no `&mut` overlaps it.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(address: DeviceAddress, len: usize) -> &'a Self {
        let data =
            std::ptr::slice_from_raw_parts(std::ptr::without_provenance::<()>(address.0 as usize), len);
        // SAFETY: `Self` is transparent over `[()]`, which has no bytes, needs no alignment, and is valid at any address that
        // is not null (L1).
        unsafe { &*(data as *const Self) }
    }

    /// # Safety
    /// L1 and L2 hold for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw_mut<'a>(address: DeviceAddress, len: usize) -> &'a mut Self {
        let data = std::ptr::slice_from_raw_parts_mut(
            std::ptr::without_provenance_mut::<()>(address.0 as usize),
            len,
        );
        // SAFETY: as in `from_raw`.
        unsafe { &mut *(data as *mut Self) }
    }

    /// Length in elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Where the memory is. Reading or writing there takes `unsafe`, and is a race while the stream has it.
    #[inline]
    pub fn address(&self) -> NonNull<c_void> {
        let address = self.elements.as_ptr().addr();
        // L1: never null; the provenance was exposed when it was mapped, or lent to us.
        NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
    }

    fn part(&self, range: &Range<usize>) -> DeviceAddress {
        DeviceAddress((self.elements.as_ptr().addr() + range.start * size_of::<T>()) as u64)
    }

    /// Splits in two at element `mid`; the halves can be used at once, for they do not overlap.
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_at_mut(&mut self, mid: usize) -> (&mut Self, &mut Self) {
        let len = self.len();
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        let (start, middle) = (self.part(&(0..mid)), self.part(&(mid..len)));
        // SAFETY: the first `mid` elements of uniquely borrowed memory, which the other half does not overlap (L2).
        let left = unsafe { Self::from_raw_mut(start, mid) };
        // SAFETY: the rest of it.
        let right = unsafe { Self::from_raw_mut(middle, len - mid) };
        (left, right)
    }
}

impl<T, P, I: RangeIndex> Index<I> for PinnedSlice<T, P> {
    type Output = I::Part<Self>;

    #[inline]
    #[track_caller]
    fn index(&self, range: I) -> &I::Part<Self> {
        let range = range.within(self.len());
        // SAFETY: a part of memory for which L1 holds, for no longer than `self` is borrowed.
        I::part(unsafe { Self::from_raw(self.part(&range), range.len()) })
    }
}

impl<T, P, I: RangeIndex> IndexMut<I> for PinnedSlice<T, P> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, range: I) -> &mut I::Part<Self> {
        let range = range.within(self.len());
        // SAFETY: a part of uniquely borrowed memory, for no longer than the borrow (L1, L2).
        I::part_mut(unsafe { Self::from_raw_mut(self.part(&range), range.len()) })
    }
}
