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
use crate::memory::{BlockAddress, DeviceBlock};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::tag::{DeviceTag, Idle, Place, StreamTag};
use cuda_rt_driver::DeviceAddress;

/// NCCL reads memory in units of this size.
const UNIT_BYTES: u64 = 16;

impl<T, P> fmt::Debug for DeviceBuffer<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceBuffer({:#x}, {} elements)",
            self.address().0,
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
        self.memory().address.address()
    }

    /// The buffer's start and end in bytes behind a multiple of [`UNIT_BYTES`], if other owners may
    /// have bytes in the same units. They have none in units of a whole allocation: the pool's
    /// allocations begin at multiples of 256 bytes.
    pub(crate) fn shared_units(&self) -> Option<(usize, usize)> {
        let Memory { len, split, .. } = self.memory();
        let (address, bytes) = (self.address(), len * size_of::<T>());
        let block = split.as_ref()?;
        let behind = |address: u64| (address % UNIT_BYTES) as usize;
        let start = behind(address.0);
        let end = match block.ends_with(address, bytes) {
            true => 0,
            false => behind(address.0 + bytes as u64),
        };
        (bytes > 0 && (start, end) != (0, 0)).then_some((start, end))
    }

    /// Whether the memory is of other code, and in no pool of ours.
    pub(crate) fn is_foreign(&self) -> bool {
        self.memory()
            .split
            .as_ref()
            .is_some_and(|block| block.is_foreign())
    }

    pub(crate) fn core(&self) -> &DeviceCore {
        &self.memory().core
    }

    /// # Safety
    /// BUFFER-1 to BUFFER-4 hold. If the elements have 0 bytes, the address may be any address.
    pub(crate) unsafe fn from_block(
        core: &Arc<DeviceCore>,
        at: StreamRef,
        block: DeviceBlock,
        len: usize,
    ) -> Self {
        let empty = len == 0 || size_of::<T>() == 0;
        let block = match empty {
            true => DeviceBlock {
                address: DANGLING,
                pooled_bytes: 0,
            },
            false => block,
        };
        let memory = Memory {
            address: BlockAddress::new(block),
            len,
            at,
            core: Arc::clone(core),
            split: None,
        };
        // SAFETY: BUFFER-1 to BUFFER-4 hold by this function's contract. If there are no bytes, the
        // address dangles, as BUFFER-1 demands.
        unsafe { Self::new(memory) }
    }

    /// A buffer of memory that the driver alone may have back.
    ///
    /// # Safety
    /// BUFFER-1 to BUFFER-3 hold. If the elements have 0 bytes, `address` may be any address.
    pub(crate) unsafe fn from_raw_at(
        core: &Arc<DeviceCore>,
        at: StreamRef,
        address: DeviceAddress,
        len: usize,
    ) -> Self {
        let block = DeviceBlock {
            address,
            pooled_bytes: 0,
        };
        // SAFETY: this function's contract. BUFFER-4: `pooled_bytes` is 0.
        unsafe { Self::from_block(core, at, block, len) }
    }

    /// A buffer of foreign memory: `foreign` gives the memory back, and nothing frees it here.
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
        // SAFETY: BUFFER-1 to BUFFER-3 hold by this function's contract.
        let mut memory = unsafe { Self::from_raw_at(core, at, address, len) }.into_memory();
        let bytes = len * size_of::<T>();
        let block = memory.address.block(bytes);
        memory.split = Some(Arc::new(SplitBlock::new(block, bytes, Some(foreign))));
        // SAFETY: BUFFER-1: the memory is all of a foreign block. BUFFER-2 and BUFFER-3 held for
        // the buffer above, and `at` is unchanged.
        unsafe { Self::new(memory) }
    }

    /// Splits the buffer at element `mid`: keeps the elements before `mid`, and returns an owner of
    /// the rest. No GPU work.
    ///
    /// Each half can move to another stream or thread, or be dropped alone. [`join`](Self::join)
    /// makes one buffer of them again. The halves share one block. It is freed when the last half
    /// is dropped, after the last uses of all halves; a leaked half leaks the whole block. If the
    /// halves stay with one stream, views are cheaper: [`DeviceSlice::split_at_mut`].
    ///
    /// Counterexample: a program copies the first half back while it still computes the second.
    /// With one owner the download stream would have to wait for both halves. With two views on two
    /// streams nothing would say when the block may be freed.
    ///
    /// # Hazards prevented
    /// [H11](crate::hazards#h11) (the halves do not overlap), [H21](crate::hazards#h21).
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
    /// // The copy back of this half does not wait for what follows.
    /// let first = download.acquire(compute.release(first)?)?;
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
        // SAFETY: BUFFER-1: `self` shrinks to the first half of the elements that it owned, and
        // `rest` gets the others. `at` does not change, so BUFFER-2 and BUFFER-3 still hold.
        let memory = unsafe { self.memory_mut() };
        if owned && memory.split.is_none() {
            let bytes = len * size_of::<T>();
            let block = memory.address.block(bytes);
            memory.split = Some(Arc::new(SplitBlock::new(block, bytes, None)));
        }
        memory.len = mid;
        let rest = Memory {
            address: match owned {
                true => memory.address.plus(mid * size_of::<T>()),
                false => memory.address,
            },
            len: len - mid,
            at: memory.at,
            core: Arc::clone(&memory.core),
            split: memory.split.clone(),
        };
        // SAFETY: BUFFER-1: `rest` owns the second half, which `self` gave up. BUFFER-2 and
        // BUFFER-3 held for the whole.
        unsafe { Self::new(rest) }
    }

    /// Drops the buffer without freeing its memory, because the caller has taken the memory.
    ///
    /// # Panics
    /// If the buffer is a part of a block, which no single part may give away, or holds foreign
    /// memory, which must go back to its owner.
    #[track_caller]
    pub(crate) fn forget_memory(self) {
        assert!(
            self.memory().split.is_none(),
            "a part of a block cannot be given away: join it with the rest first; nor can foreign memory, which goes back by itself"
        );
        let memory = self.into_memory();
        let block = memory.address.block(memory.len * size_of::<T>());
        memory.core.memory().give_away(block);
    }

    /// Drops the buffer and leaks its memory: work whose end is unknown may still use the memory.
    pub(crate) fn leak(self) {
        // A leaked reference keeps the block of a part from being freed.
        std::mem::forget(self.into_memory().split);
    }

    /// The stream that frees the memory if no stream acquires it again. It is the buffer's last
    /// stream, or the device's own stream for frees if the last stream was adopted: an adopted
    /// stream may be destroyed by then. Any stream of the device serves, because idle memory is
    /// freed only after every use is over.
    #[inline]
    fn at_when_idle(&self) -> StreamRef {
        let Memory { at, core, .. } = self.memory();
        match at.is_adopted() {
            true => core.stream_for_frees(),
            false => *at,
        }
    }

    /// Joins two adjacent parts of one block: `tail` must begin where this part ends. No GPU work.
    /// A whole block behaves as if it had never been split.
    ///
    /// # Errors
    /// [`Error::NotAdjacent`] if the parts are not adjacent. Both are then dropped, in stream
    /// order; [`try_join`](Self::try_join) gives them back.
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
                    during: "DeviceBuffer::join",
                },
                value: (self, tail),
            });
        };
        // This drop does not free the block: the first part still holds it.
        drop(tail.into_memory());
        let mut memory = self.into_memory();
        memory.len = len;
        if let Some(block) = &mut memory.split
            && block.is_whole(memory.address.address(), len * size_of::<T>())
        {
            memory.split = None;
        }
        // SAFETY: BUFFER-1: both parts were owned, and are adjacent. BUFFER-2: if a stream owns
        // them, the uses of both come before its present end; if they are idle, no use of either is
        // pending. BUFFER-3 held for both.
        Ok(unsafe { Self::new(memory) })
    }

    /// Whether `tail` begins where this part ends, in the same block.
    pub(super) fn is_before(&self, tail: &Self) -> bool {
        let (first, second) = (self.memory(), tail.memory());
        match (&first.split, &second.split) {
            (Some(block), Some(other)) => Arc::ptr_eq(block, other) && self.end() == tail.address(),
            // Two empty buffers join. Two whole allocations never do.
            (None, None) => self.address() == DANGLING && tail.address() == DANGLING,
            _ => false,
        }
    }

    /// The same memory with `len` elements of another type.
    ///
    /// # Safety
    /// `len` elements of `U` have the bytes of all elements of `T`. They may begin at the address,
    /// and the memory may be read as `U`.
    pub(super) unsafe fn with_elements<U>(self, len: usize) -> DeviceBuffer<U, P> {
        let memory = Memory {
            len,
            ..self.into_memory()
        };
        // SAFETY: BUFFER-1 held for `self`, whose bytes are the elements of `U` by this function's
        // contract. `at` and the place do not change (BUFFER-2, BUFFER-3).
        unsafe { DeviceBuffer::new(memory) }
    }

    /// The address after the last element.
    fn end(&self) -> DeviceAddress {
        DeviceAddress(self.address().0 + (self.len() * size_of::<T>()) as u64)
    }

    /// The same memory with another element type, or in another place.
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
        // SAFETY: BUFFER-1 held for `self`, whose elements have the size of `U`. BUFFER-2 and
        // BUFFER-3 hold by this function's contract.
        unsafe { DeviceBuffer::new(memory) }
    }
}

impl Memory {
    /// # Safety
    /// BUFFER-1, BUFFER-2 and BUFFER-4 hold for elements of this size.
    #[inline]
    unsafe fn free(self, element_bytes: usize) {
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
        if address.address() == DANGLING {
            return;
        }
        // After a failed ordering BUFFER-2 says nothing about the order, and the memory is leaked.
        if core.check().is_ok() {
            let block = address.block(len * element_bytes);
            // SAFETY: BUFFER-1 and BUFFER-2: nothing else owns the memory, and every use is ordered
            // before the present end of `at`. BUFFER-4: the buffer is all of its allocation.
            unsafe { core.memory().free(block, at) };
        }
    }
}

impl<T, S> DeviceBuffer<MaybeUninit<T>, S> {
    /// Asserts that every element is written before work that is enqueued later reads it.
    ///
    /// Rarely needed: [`Stream::init_from`](crate::Stream::init_from),
    /// [`init_from_host`](crate::Stream::init_from_host) and
    /// [`init_filled`](crate::Stream::init_filled) write and convert in one step.
    ///
    /// # Safety
    /// Work already enqueued in the order of this buffer's stream writes every element.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let mut raw = compute.alloc_uninit::<u32>(4)?;
    /// let (address, driver) = (raw.address(), gpu.driver());
    /// let call = compute.foreign("memset").writes(&mut raw);
    /// // SAFETY: the memory is live, and borrowed for the stream that it is given.
    /// let library = |stream| unsafe { driver.fill(address, &[0], 16, stream) };
    /// // SAFETY: one call that writes the 16 bytes of `raw`, on the stream that it is given.
    /// unsafe { call.enqueue(library) }?.expect("the memory is live");
    /// // SAFETY: the call before wrote all of it, in the order of `compute`.
    /// let zeros = unsafe { raw.assume_init() };
    /// assert_eq!(compute.copy_to_vec(&zeros)?, [0; 4]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub unsafe fn assume_init(self) -> DeviceBuffer<T, S>
    where
        T: Element,
    {
        let at = self.memory().at;
        // SAFETY: `MaybeUninit<T>` has the size of `T`, and every element is written in this
        // stream's order by this function's contract. `at` and the place do not change (BUFFER-2,
        // BUFFER-3).
        unsafe { self.recast(at) }
    }
}

// Idle buffers dereference too. A stream's method then refuses an idle buffer through `ReadBy` and
// `WriteBy`, whose messages say what to do. Without this, rustc would only say that types mismatch.
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

// SAFETY: there is one part, which every method converts. `&` gives no way to write it.
unsafe impl<T, D: DeviceTag> Bundle for DeviceBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = DeviceBuffer<T, S>;
    type View<'v, S: StreamTag> = DeviceViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = DeviceView<'v, T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> DeviceBuffer<T, S> {
        // SAFETY: BUFFER-2 and BUFFER-3 hold by the contract of `attach`: every use is ordered
        // before the present end of `at`, which is the stream `S`.
        unsafe { self.recast(at) }
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: DeviceBuffer<T, S>) -> Self {
        let at = on.at_when_idle();
        // SAFETY: BUFFER-2 holds once every use is over. By the contract of `idle_from` the buffer
        // is neither used nor dropped earlier. BUFFER-3 demands nothing of `Idle`.
        unsafe { on.recast(at) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> DeviceViewMut<'v, T, S> {
        // SAFETY: the contract of `view` is SLICE-1 and SLICE-2 for `'v` and `S`.
        unsafe { DeviceViewMut::new(self.address(), self.len()) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> DeviceView<'v, T, S> {
        // SAFETY: the contract of `by_ref` is SLICE-1 for `'v` and `S`.
        unsafe { DeviceView::new(self.address(), self.len()) }
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // From here on the memory is leaked, unless it is freed below.
        let memory = self.into_memory();
        let Memory {
            address,
            len,
            core,
            split,
            ..
        } = memory;
        if let Some(block) = split {
            // When the last part is dropped, the block waits for this fence.
            return block.end(&core, |ended| match fence.stream() {
                _ if len == 0 => {}
                // The block may be freed on this stream too.
                Some(at) => ended.on(core.events(), at),
                None => ended.behind(fence.share()),
            });
        }
        // Work that ends with a stream needs no other stream to free its memory.
        let at = fence.stream().unwrap_or(core.stream_for_frees());
        // A failed wait is not a finished wait (obligation 4): the memory is then leaked, but its
        // hold on the device is dropped.
        if fence.wait_on(at).is_ok() {
            let memory = Memory {
                address,
                len,
                at,
                core,
                split: None,
            };
            // SAFETY: BUFFER-1 and BUFFER-4 held for the buffer. BUFFER-2: every use is over once
            // the fence is over, and `at` waits for the fence, or the fence is the present end of
            // `at`.
            unsafe { memory.free(size_of::<T>()) }
        }
    }
}

// SAFETY: there is one part, and `S` owns it.
unsafe impl<T, S: StreamTag> OwnedBy<S> for DeviceBuffer<T, S> {
    type Idle = DeviceBuffer<T, Idle<S::Device>>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        let at = self.at_when_idle();
        // SAFETY: as in `idle_from`: BUFFER-2 holds once every use is over, and by the contract of
        // `detach` the buffer is neither used nor dropped earlier.
        unsafe { self.recast(at) }
    }
}
