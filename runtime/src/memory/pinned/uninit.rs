//! Pinned memory that nothing wrote yet: `PinnedBuffer<MaybeUninit<T>>`, and the calls that write
//! all of it.

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::def::{Memory, PinnedBuffer, Storage};
use crate::device::core::DeviceCore;
use crate::error::{Error, PinnedError, Result};
use crate::memory::bundle::ToHost;
use crate::memory::{Element, size_in_bytes};
use crate::tag::{DeviceTag, Idle, Live};
use cuda_rt_driver::CallSite;

/// The bytes that a reader gets at once. They are zeroed first, because `Read` may read them; a
/// piece of this size stays in the processor's cache meanwhile.
const READ_BYTES: usize = 64 << 10;

impl<T: Element, D: DeviceTag> PinnedBuffer<T, Idle<D>> {
    /// A block of the pool, zeroed, for the call `during`.
    #[track_caller]
    pub(crate) fn zeroed(core: &Arc<DeviceCore>, len: usize, during: &'static str) -> Result<Self> {
        let buffer = PinnedBuffer::<MaybeUninit<T>, Idle<D>>::uninit(core, len, during)?;
        // SAFETY: PINNED-1: the buffer owns `len` elements there, aligned to a page. PINNED-3: it
        // is idle, so nothing else uses them.
        unsafe { buffer.base().write_bytes(0, len) };
        // SAFETY: all bytes are zero, and an `Element` is `Pod`, so zero is a value.
        Ok(unsafe { buffer.assume_init() })
    }
}

impl<T: Element, D: DeviceTag> PinnedBuffer<MaybeUninit<T>, Idle<D>> {
    /// A block of the pool, as its last user left it, for the call `during`.
    #[track_caller]
    pub(crate) fn uninit(core: &Arc<DeviceCore>, len: usize, during: &'static str) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len).ok_or(PinnedError::TooLarge {
            during,
            len,
            element_bytes: size_of::<T>(),
        })?;
        let block = if bytes == 0 {
            None
        } else {
            Some(core.pinned().take(bytes, during)?)
        };
        let memory = Memory {
            storage: block.map(Storage::Whole),
            len,
            at: None,
            core: Arc::clone(core),
        };
        // SAFETY: PINNED-1: the pool gave the block to this buffer alone. PINNED-2: any bytes are a
        // `MaybeUninit`. PINNED-3: the pool gives out only blocks that no work uses. PINNED-4
        // demands nothing of `Idle`.
        let buffer = unsafe { Self::new(memory) };
        buffer.tell_host_has(ToHost::writes(CallSite::here("Device::pinned")));
        Ok(buffer)
    }
}

impl<T: Element, D: Live> PinnedBuffer<MaybeUninit<T>, Idle<D>> {
    /// Writes a copy of `source`, and so makes the buffer readable.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; the buffer then goes back to its pool.
    ///
    /// ```
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let host = gpu.pinned_uninit(3)?.init_from_slice(&[1.0, 2.0, 3.0])?;
    /// assert_eq!(host[2], 3.0);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn init_from_slice(self, source: &[T]) -> Result<PinnedBuffer<T, Idle<D>>> {
        if self.len() != source.len() {
            return Err(Error::LengthMismatch {
                during: "PinnedBuffer::init_from_slice",
                source_len: source.len(),
                destination_len: self.len(),
            });
        }
        // SAFETY: `source` has `len` elements. PINNED-1: so has the buffer, which owns them, and
        // they do not overlap. PINNED-3: it is idle, so nothing else uses them.
        unsafe {
            self.base()
                .copy_from_nonoverlapping(std::ptr::NonNull::from(source).cast(), source.len())
        };
        // SAFETY: all elements were written.
        Ok(unsafe { self.assume_init() })
    }

    /// Writes `value(0)`, `value(1)` and so on, and so makes the buffer readable. If `value`
    /// panics, the buffer goes back to its pool.
    ///
    /// ```
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let mut lines = "3\n4\n5".lines();
    /// let mut number = || lines.next().unwrap_or("0").parse().unwrap_or(0);
    /// let host = gpu.pinned_uninit(3)?.init_with(|_| number());
    /// assert_eq!(*host, [3, 4, 5]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn init_with(mut self, mut value: impl FnMut(usize) -> T) -> PinnedBuffer<T, Idle<D>> {
        for (at, element) in self.iter_mut().enumerate() {
            element.write(value(at));
        }
        // SAFETY: the loop wrote all elements.
        unsafe { self.assume_init() }
    }

    /// Reads all elements from `reader`, as bytes in the order of this machine, and so makes the
    /// buffer readable.
    ///
    /// # Errors
    /// The errors of `reader`, and [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if it ends
    /// early. The buffer then goes back to its pool.
    ///
    /// ```
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let file: &[u8] = &[1, 0, 2, 0]; // any `std::io::Read`
    /// let host = gpu.pinned_uninit::<u16>(2)?.init_from_reader(file)?;
    /// assert_eq!(*host, [1u16.to_le(), 2u16.to_le()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn init_from_reader(self, mut reader: impl Read) -> io::Result<PinnedBuffer<T, Idle<D>>> {
        let (start, bytes) = (self.base().cast::<u8>(), self.len() * size_of::<T>());
        for first in (0..bytes).step_by(READ_BYTES) {
            let count = READ_BYTES.min(bytes - first);
            // SAFETY: PINNED-1: `first` lies inside the buffer's bytes.
            let piece = unsafe { start.add(first) };
            // SAFETY: PINNED-1: the piece has `count` bytes, which the buffer owns. PINNED-3: it is
            // idle, so nothing else uses them.
            unsafe { piece.write_bytes(0, count) };
            // SAFETY: as above, and the bytes were written just now. `self` is not used meanwhile.
            let piece = unsafe { std::slice::from_raw_parts_mut(piece.as_ptr(), count) };
            reader.read_exact(piece)?;
        }
        // SAFETY: every byte was written, at least by the zeros: a reader that writes too little
        // leaves zeros. An `Element` is `Pod`, so any bytes are values.
        Ok(unsafe { self.assume_init() })
    }
}

impl<T: Element, P> PinnedBuffer<MaybeUninit<T>, P> {
    /// Asserts that every element is written.
    ///
    /// Rarely needed: [`init_from_slice`](Self::init_from_slice), [`init_with`](Self::init_with),
    /// [`init_from_reader`](Self::init_from_reader) and
    /// [`Stream::init_host_from`](crate::Stream::init_host_from) write and convert in one step.
    ///
    /// # Safety
    /// Every element was written, or, if a stream owns the buffer, is written by work already
    /// enqueued in the order of that stream.
    ///
    /// ```
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let mut raw = gpu.pinned_uninit::<u32>(2)?;
    /// for element in raw.iter_mut() {
    ///     element.write(7);
    /// }
    /// // SAFETY: the loop wrote both.
    /// let data = unsafe { raw.assume_init() };
    /// assert_eq!(data[..], [7, 7]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub unsafe fn assume_init(self) -> PinnedBuffer<T, P> {
        let memory = self.into_memory();
        // SAFETY: PINNED-1: `MaybeUninit<T>` has the layout of `T`. PINNED-2: every element is
        // written by this function's contract, before anything reads it. The place and `at` do not
        // change (PINNED-3, PINNED-4).
        unsafe { PinnedBuffer::new(memory) }
    }
}
