//! [`WriteCombinedBuffer`]: an owner of write-combined memory, which the host writes and streams
//! read.

mod block;
mod def;
mod view;
mod write;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) use block::WriteCombinedPool;
use def::Memory;
pub use def::WriteCombinedBuffer;
pub use view::WriteCombinedView;
use write::HostWrite;

use super::bundle::{Bundle, OwnedBy, ToHost};
use super::pinned_slice::PinnedSlice;
use super::slice::DANGLING;
use super::view::PinnedView;
use super::{Element, RangeIndex, size_in_bytes};
use crate::device::core::DeviceCore;
use crate::error::{PinnedError, Result};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::{DeviceTag, Idle, IdlePlace, Live, Place, StreamTag, WriteCombined};
use cuda_rt_driver::{CallSite, DeviceAddress};

impl<T, P> fmt::Debug for WriteCombinedBuffer<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "WriteCombinedBuffer({:#x}, {} elements)",
            self.address().0,
            self.len()
        )
    }
}

impl<T, P> WriteCombinedBuffer<T, P> {
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

    fn address(&self) -> DeviceAddress {
        match &self.memory().block {
            Some(block) => DeviceAddress(block.address().addr().get() as u64),
            None => DANGLING,
        }
    }

    /// The same memory in another place.
    ///
    /// # Safety
    /// WRITE-COMBINED-3 and WRITE-COMBINED-4 hold for `Q` and `at`.
    #[inline]
    unsafe fn recast<Q>(self, at: Option<StreamRef>) -> WriteCombinedBuffer<T, Q> {
        let memory = Memory {
            at,
            ..self.into_memory()
        };
        // SAFETY: WRITE-COMBINED-1 and WRITE-COMBINED-2 held for `self`. WRITE-COMBINED-3 and
        // WRITE-COMBINED-4 hold by this function's contract.
        unsafe { WriteCombinedBuffer::new(memory) }
    }
}

impl<T: Element, D: Live> WriteCombinedBuffer<T, Idle<D>> {
    /// A block of the pool with `len` elements, which `value` gives all of, for the call `during`.
    #[track_caller]
    pub(crate) fn written(
        core: &Arc<DeviceCore>,
        len: usize,
        during: &'static str,
        value: impl FnMut(usize) -> T,
    ) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len).ok_or(PinnedError::TooLarge {
            during,
            len,
            element_bytes: size_of::<T>(),
        })?;
        let block = match bytes {
            0 => None,
            _ => Some(core.write_combined().take(bytes, during)?),
        };
        let memory = Memory {
            block,
            len,
            at: None,
            core: Arc::clone(core),
        };
        // SAFETY: WRITE-COMBINED-1: the pool gave the block to this buffer alone.
        // WRITE-COMBINED-2: `write_with` writes every element before the buffer leaves this
        // function; on an error or a panic the buffer is dropped here. WRITE-COMBINED-3: the pool
        // gives out only blocks that nothing uses. WRITE-COMBINED-4 demands nothing of `Idle`.
        let mut buffer = unsafe { Self::new(memory) };
        buffer.host(during).write_with(0..len, value)?;
        Ok(buffer)
    }
}

/// The host's writes of an idle buffer.
impl<T: Element, P> WriteCombinedBuffer<T, P> {
    /// Writes a copy of `source` to the elements of `range`. No call of CUDA is made.
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14): the buffer is idle, so no upload reads the elements.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) if the range has another length.
    /// [`Error::Driver`](crate::Error::Driver) if the process ends, or was forked from the one that
    /// opened the device. Nothing is written then.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    #[track_caller]
    pub fn copy_from_slice(&mut self, range: impl RangeIndex, source: &[T]) -> Result<()>
    where
        P: IdlePlace,
    {
        let range = range.within(self.len());
        self.host("WriteCombinedBuffer::copy_from_slice")
            .copy_from_slice(range, source)
    }

    /// Writes `value` to each element of `range`. No call of CUDA is made.
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14), as for [`copy_from_slice`](Self::copy_from_slice).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the process ends, or was forked from the one that
    /// opened the device. Nothing is written then.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    #[track_caller]
    pub fn fill(&mut self, range: impl RangeIndex, value: T) -> Result<()>
    where
        P: IdlePlace,
    {
        let range = range.within(self.len());
        self.host("WriteCombinedBuffer::fill")
            .write_with(range, |_| value)
    }

    /// Writes `value(i)` to element `i`, for each index of `range`, the first one first. No call of
    /// CUDA is made. `value` may take its elements from an iterator.
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14), as for [`copy_from_slice`](Self::copy_from_slice).
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    ///
    /// # Panics
    /// If the range is not within the buffer, and if `value` does. The elements before the panic
    /// are written then.
    ///
    /// ```
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let mut lines = "3\n4\n5".lines().map(|line| line.parse().unwrap_or(0));
    /// let mut numbers = gpu.write_combined::<u32>(100)?;
    /// numbers.write_with(10..13, |_| lines.next().unwrap_or(0))?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn write_with(&mut self, range: impl RangeIndex, value: impl FnMut(usize) -> T) -> Result<()>
    where
        P: IdlePlace,
    {
        let range = range.within(self.len());
        self.host("WriteCombinedBuffer::write_with")
            .write_with(range, value)
    }

    #[track_caller]
    fn host(&mut self, during: &'static str) -> HostWrite<'_, T>
    where
        P: IdlePlace,
    {
        let start = match &self.memory().block {
            Some(block) => block.address().cast(),
            None => NonNull::dangling(),
        };
        let (core, passed) = (&self.memory().core, CallSite::here(during));
        // SAFETY: HOST-WRITE-1: WRITE-COMBINED-1: the buffer owns the elements, and is borrowed
        // uniquely. `P` is idle (`IdlePlace`), so WRITE-COMBINED-3 says that no work uses them; an
        // idle buffer that is shared is never borrowed so. Blocks are aligned to a page.
        unsafe { HostWrite::new(core, start, self.len(), passed) }
    }
}

// Idle buffers dereference too: a stream's method then refuses an idle buffer through `ReadBy`,
// whose message says what to do.
impl<T, P: Place> Deref for WriteCombinedBuffer<T, P> {
    type Target = PinnedSlice<T, WriteCombined<P>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        // SAFETY: WRITE-COMBINED-1, WRITE-COMBINED-2 and WRITE-COMBINED-4 give PINNED-SLICE-1 for
        // as long as the buffer is borrowed: only the stream `P` reads the place.
        unsafe { PinnedSlice::from_raw(self.address(), self.len()) }
    }
}

// For the message alone: no stream writes the place.
impl<T, P: Place> DerefMut for WriteCombinedBuffer<T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: as above, and the buffer is borrowed uniquely (PINNED-SLICE-2).
        unsafe { PinnedSlice::from_raw_mut(self.address(), self.len()) }
    }
}

impl Memory {
    /// Gives the block of a dropped buffer back, behind the present end of its stream.
    fn give_back(self) {
        let Self { block, at, core, .. } = self;
        match (block, at) {
            (None, _) => {}
            (Some(block), None) => core.write_combined().give_back(block, Fence::DONE),
            (Some(block), Some(at)) => {
                // WRITE-COMBINED-3: without a recorded event nothing says when the GPU is done with
                // the block (obligation 4). It is then leaked.
                let block = Leaked::new(block);
                if let Ok(lease) = core.events().record(at, false) {
                    core.write_combined().give_back(block.take_back(), lease.into());
                }
            }
        }
    }
}

// SAFETY: there is one part, which every method converts. `&` gives no way to write it: views for
// reading are `PinnedView`s of a place that no stream writes.
unsafe impl<T, D: DeviceTag> Bundle for WriteCombinedBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = WriteCombinedBuffer<T, S>;
    type View<'v, S: StreamTag> = WriteCombinedView<'v, T, S>;
    type Ref<'v, S: StreamTag> = PinnedView<'v, T, WriteCombined<S>>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> WriteCombinedBuffer<T, S> {
        // SAFETY: WRITE-COMBINED-3 and WRITE-COMBINED-4 hold by the contract of `attach`: every use
        // is ordered before the present end of `at`, which is the stream `S`.
        unsafe { self.recast(Some(at)) }
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: WriteCombinedBuffer<T, S>) -> Self {
        // SAFETY: WRITE-COMBINED-3 holds once every use is over. By the contract of `idle_from` the
        // buffer is neither used nor dropped earlier. WRITE-COMBINED-4 demands nothing of `Idle`.
        unsafe { on.recast(None) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> WriteCombinedView<'v, T, S> {
        let core = Arc::clone(&self.memory().core);
        // SAFETY: the contract of `view` is WRITE-COMBINED-VIEW-1 for `'v` and `S`.
        unsafe { WriteCombinedView::new(self.address(), self.len(), core) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> PinnedView<'v, T, WriteCombined<S>> {
        // SAFETY: the contract of `by_ref` is PINNED-SLICE-1 for `'v` and `S`, which alone reads
        // the place.
        unsafe { PinnedView::new(self.address(), self.len()) }
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // If the record of an event unwinds, the memory is leaked.
        let memory = Leaked::new(self.into_memory());
        let fence = fence.share();
        let Memory { block, core, .. } = memory.take_back();
        if let Some(block) = block {
            core.write_combined().give_back(block, fence);
        }
    }

    /// The host's writes tell a checker themselves, while the memory is mapped.
    #[inline]
    fn note_host_access(&self, _passed: ToHost) {}
}

// SAFETY: there is one part, and `S` owns it.
unsafe impl<T, S: StreamTag> OwnedBy<S> for WriteCombinedBuffer<T, S> {
    type Idle = WriteCombinedBuffer<T, Idle<S::Device>>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        // SAFETY: as in `idle_from`: WRITE-COMBINED-3 holds once every use is over, and by the
        // contract of `detach` the buffer is neither used nor dropped earlier.
        unsafe { self.recast(None) }
    }
}
