use std::ptr::NonNull;

use crate::driver::DeviceAddress;
use crate::memory::{DeviceBuffer, DeviceSlice, PinnedSlice};
use crate::place::StreamTag;
use crate::stream::Stream;

impl<T, S: StreamTag> DeviceBuffer<T, S> {
    /// Owns memory that someone else allocated; it is freed with `cuMemFreeAsync`, in the order of the stream that it then
    /// belongs to. Calls nothing. With `len` 0 the address is ignored.
    ///
    /// # Safety
    /// 1. `address` came from a stream-ordered allocation of the device of `stream` (`cuMemAllocAsync`,
    ///    `cuMemAllocFromPoolAsync`; of at least `len` elements), whose start it is, or from [`into_raw`](Self::into_raw) of the
    ///    same device; nothing else will use or free it. A pool that it came from lives until it is freed.
    /// 2. Every use of it that is enqueued is ordered before the present end of `stream`.
    /// 3. It is aligned for `T`, and holds values of `T` by then, unless `T` is
    ///    [`MaybeUninit`](std::mem::MaybeUninit).
    pub unsafe fn from_raw(stream: &Stream<S>, address: DeviceAddress, len: usize) -> Self {
        // SAFETY: the caller's obligations are B1 and B2; B3 by definition.
        unsafe { Self::from_raw_at(stream.core(), stream.at(), address, len) }
    }

    /// Gives the memory away: its address and its length in elements. Calls nothing; who owns it now frees it
    /// (`cuMemFreeAsync`), after what this stream holds, or gives it [back](Self::from_raw). A buffer of 0 bytes has an
    /// address that is no memory's, and is not freed.
    ///
    /// Leaking memory is safe, so this is; using the address is not. The device must be kept open: its pool goes with the last
    /// handle to it.
    ///
    /// # Panics
    /// If it is a part that was [split off](DeviceBuffer::split_off) and not joined again: its address alone cannot be freed. And if
    /// a [loan](Stream::lend) on this device could not be joined: then nothing says when the memory is no longer used.
    #[track_caller]
    pub fn into_raw(self) -> (DeviceAddress, usize) {
        if let Err(error) = self.core().check() {
            panic!("memory of a device whose work is not ordered any more cannot be given away: {error}");
        }
        let (address, len) = (self.address(), self.len());
        self.forget_memory();
        (address, len)
    }
}

impl<T, S: StreamTag> DeviceSlice<T, S> {
    /// Memory that someone else keeps, for `S` to read.
    ///
    /// # Safety
    /// For `'a`, and until the work of `S` that uses the slice by then is over:
    /// 1. `address` is that of `len` elements of memory that the device of `S` can address; not 0.
    /// 2. They are aligned for `T`, and hold values of `T`, unless `T` is [`MaybeUninit`](std::mem::MaybeUninit).
    /// 3. Writes to them are ordered before the work of `S`, and no one else writes them.
    pub unsafe fn from_raw_parts<'a>(address: DeviceAddress, len: usize) -> &'a Self {
        // SAFETY: the caller's obligations are S1.
        unsafe { Self::from_raw(address, len) }
    }

    /// As [`from_raw_parts`](Self::from_raw_parts), to read and write.
    ///
    /// # Safety
    /// As there, and every other use of them is ordered before the work of `S` or after it.
    pub unsafe fn from_raw_parts_mut<'a>(address: DeviceAddress, len: usize) -> &'a mut Self {
        // SAFETY: the caller's obligations are S1 and S2.
        unsafe { Self::from_raw_mut(address, len) }
    }
}

impl<T, S: StreamTag> PinnedSlice<T, S> {
    /// Page-locked memory that someone else keeps, for `S` to read.
    ///
    /// # Safety
    /// For `'a`, and until the work of `S` that uses the slice by then is over:
    /// 1. `start` is that of `len` elements that are mapped, page-locked for the device of `S` (`cuMemHostAlloc`,
    ///    `cuMemHostRegister`) and initialised to values of `T`.
    /// 2. Writes to them are ordered before the work of `S`, and no one writes them, on the host either.
    pub unsafe fn from_raw_parts<'a>(start: NonNull<T>, len: usize) -> &'a Self {
        let address = DeviceAddress(start.as_ptr().expose_provenance() as u64);
        // SAFETY: the caller's obligations are L1; the provenance was exposed.
        unsafe { Self::from_raw(address, len) }
    }

    /// As [`from_raw_parts`](Self::from_raw_parts), to read and write.
    ///
    /// # Safety
    /// As there, and every other use of them, on the host too, is ordered before the work of `S` or after it.
    pub unsafe fn from_raw_parts_mut<'a>(start: NonNull<T>, len: usize) -> &'a mut Self {
        let address = DeviceAddress(start.as_ptr().expose_provenance() as u64);
        // SAFETY: the caller's obligations are L1 and L2; the provenance was exposed.
        unsafe { Self::from_raw_mut(address, len) }
    }
}
