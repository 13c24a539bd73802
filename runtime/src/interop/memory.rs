//! Memory that someone else made, or that is given away.

use std::ptr::NonNull;

use crate::device::Device;
use crate::error::Unordered;
use crate::memory::{DeviceBuffer, DeviceSlice, Foreign, PinnedBuffer, PinnedSlice};
use crate::stream::Stream;
use crate::tag::{Idle, Live, StreamTag};
use cuda_rt_driver::{CallSite, DeviceAddress};

impl<T, S: StreamTag> DeviceBuffer<T, S> {
    /// Owns memory that someone else allocated; it is freed with `cuMemFreeAsync`, in the order of
    /// the stream that it then belongs to. Calls nothing. With `len` 0 the address is ignored.
    ///
    /// # Safety
    /// 1. `address` came from a stream-ordered allocation of the device of `stream`
    ///    (`cuMemAllocAsync`, `cuMemAllocFromPoolAsync`; of at least `len` elements), whose start
    ///    it is, or from [`into_raw`](Self::into_raw) of the same device; nothing else will use or
    ///    free it. A pool that it came from lives until it is freed.
    /// 2. Every use of it that is enqueued is ordered before the present end of `stream`.
    /// 3. It is aligned for `T`, and holds values of `T` by then, unless `T` is
    ///    [`MaybeUninit`](std::mem::MaybeUninit).
    pub unsafe fn from_raw(stream: &Stream<S>, address: DeviceAddress, len: usize) -> Self {
        // SAFETY: the caller's obligations are BUFFER-1 and BUFFER-2; BUFFER-3 by definition.
        unsafe { Self::from_raw_at(stream.core(), stream.at(), address, len) }
    }

    /// Owns memory that someone else allocated in any way (`cuMemAlloc`, an import from another
    /// process, another library's pool), and gives it back with `release` once the last use of it
    /// is over. Calls nothing.
    ///
    /// It moves, splits and is dropped as any buffer, and dropping it never blocks: `release` runs
    /// on the device's thread for closures ([`Handoff::on_done`](crate::Handoff::on_done)), after
    /// the events of all uses were seen done, and may call anything, also what waits for the device
    /// (`cuMemFree`). What it panics with goes to the panic hook, and no further. Where the end of
    /// a use is never known, after a sticky error, or if no thread can be started, it is leaked
    /// with all that it holds. With `len` 0 the address is ignored, and `release` runs all the
    /// same.
    ///
    /// A checker that follows the device takes the release for a write by the host.
    ///
    /// # Safety
    /// 1. `address` is that of `len` elements of memory that the device of `stream` can read and
    ///    write, until `release` is run; nothing else uses or frees it until then.
    /// 2. and 3. As for [`from_raw`](Self::from_raw).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # use cuda_rt::DeviceBuffer;
    /// let compute = gpu.stream::<Compute>()?;
    /// let (address, len) = compute.alloc_zeroed::<f32>(64)?.into_raw(); // someone else's from here on
    /// let (given_back, end) = std::sync::mpsc::channel();
    /// let release = move || given_back.send(address).expect("the other end waits");
    /// // SAFETY: no one uses or frees it before it was received below; zeroed in the order of `compute`.
    /// let buffer = unsafe { DeviceBuffer::<f32, _>::from_foreign(&compute, address, len, release) };
    /// drop(buffer);
    /// let address = end.recv().expect("no use is left");
    /// # // SAFETY: its uses are over.
    /// # drop(unsafe { DeviceBuffer::<f32, _>::from_raw(&compute, address, len) });
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub unsafe fn from_foreign(
        stream: &Stream<S>,
        address: DeviceAddress,
        len: usize,
        release: impl FnOnce() + Send + 'static,
    ) -> Self {
        let passed = CallSite::here("DeviceBuffer::from_foreign");
        let foreign = Foreign::new(stream.core(), address, len * size_of::<T>(), passed, release);
        // SAFETY: the caller's obligations are BUFFER-1 and BUFFER-2; BUFFER-3 by definition.
        unsafe { Self::from_foreign_at(stream.core(), stream.at(), address, len, foreign) }
    }

    /// Gives the memory away: its address and its length in elements. Calls nothing; who owns it
    /// now frees it (`cuMemFreeAsync`), after what this stream holds, or gives it
    /// [back](Self::from_raw). A buffer of 0 bytes has an address that is no memory's, and is not
    /// freed.
    ///
    /// Leaking memory is safe, so this is; using the address is not. The device must be kept open:
    /// its pool goes with the last handle to it.
    ///
    /// # Panics
    /// If it is a part that was [split off](DeviceBuffer::split_off) and not joined again: its
    /// address alone cannot be freed. If it is [foreign](Self::from_foreign). And if a
    /// [loan](Stream::lend) on this device could not be joined: then nothing says when the memory
    /// is no longer used.
    #[track_caller]
    pub fn into_raw(self) -> (DeviceAddress, usize) {
        if let Err(Unordered { cause, .. }) = self.core().check() {
            panic!("memory of a device whose work is not ordered any more cannot be given away: {cause}");
        }
        let (address, len) = (self.address(), self.len());
        self.forget_memory();
        (address, len)
    }
}

impl<T, D: Live> PinnedBuffer<T, Idle<D>> {
    /// Owns page-locked memory that someone else made, and gives it back with `release` once the
    /// last use of it is over: the CPU reaches it while it is idle, and copies of a stream while it
    /// is not. Calls nothing.
    ///
    /// `release` is run as that of [`DeviceBuffer::from_foreign`], also for memory that is dropped
    /// idle; the pool of the device has no part in it, nor has its
    /// [limit](Device::set_pinned_limit). It may unmap the memory, or drop what owns it: a closure
    /// that holds the owner and is never run leaks it.
    ///
    /// # Safety
    /// Until `release` is run:
    /// 1. `start` is that of `len` elements that are mapped and page-locked for every GPU of the
    ///    process (`cuMemHostAlloc` or `cuMemHostRegister`, portable), of which one allocation
    ///    holds all; no one else reads, writes or unlocks them.
    /// 2. They are aligned for `T` and initialised to values of `T`.
    /// 3. No work that uses them is pending when this is called.
    #[track_caller]
    pub unsafe fn from_foreign(
        gpu: &Device<D>,
        start: NonNull<T>,
        len: usize,
        release: impl FnOnce() + Send + 'static,
    ) -> Self {
        let passed = CallSite::here("PinnedBuffer::from_foreign");
        let address = DeviceAddress(start.as_ptr().expose_provenance() as u64);
        let foreign = Foreign::new(gpu.core(), address, len * size_of::<T>(), passed, release);
        // SAFETY: the caller's obligations are PINNED-1 to PINNED-3.
        unsafe { Self::from_foreign_at(gpu.core(), start, len, passed, foreign) }
    }
}

impl<T, S: StreamTag> DeviceSlice<T, S> {
    /// Memory that someone else keeps, for `S` to read.
    ///
    /// # Safety
    /// For `'a`, and until the work of `S` that uses the slice by then is over:
    /// 1. `address` is that of `len` elements of memory that the device of `S` can address; not 0.
    /// 2. They are aligned for `T`, and hold values of `T`, unless `T` is
    ///    [`MaybeUninit`](std::mem::MaybeUninit).
    /// 3. Writes to them are ordered before the work of `S`, and no one else writes them.
    pub unsafe fn from_raw_parts<'a>(address: DeviceAddress, len: usize) -> &'a Self {
        // SAFETY: the caller's obligations are SLICE-1.
        unsafe { Self::from_raw(address, len) }
    }

    /// As [`from_raw_parts`](Self::from_raw_parts), to read and write.
    ///
    /// # Safety
    /// As there, and every other use of them is ordered before the work of `S` or after it.
    pub unsafe fn from_raw_parts_mut<'a>(address: DeviceAddress, len: usize) -> &'a mut Self {
        // SAFETY: the caller's obligations are SLICE-1 and SLICE-2.
        unsafe { Self::from_raw_mut(address, len) }
    }
}

impl<T, S: StreamTag> PinnedSlice<T, S> {
    /// Page-locked memory that someone else keeps, for `S` to read.
    ///
    /// # Safety
    /// For `'a`, and until the work of `S` that uses the slice by then is over:
    /// 1. `start` is that of `len` elements that are mapped, page-locked for the device of `S`
    ///    (`cuMemHostAlloc`, `cuMemHostRegister`) and initialised to values of `T`.
    /// 2. Writes to them are ordered before the work of `S`, and no one writes them, on the host
    ///    either.
    pub unsafe fn from_raw_parts<'a>(start: NonNull<T>, len: usize) -> &'a Self {
        let address = DeviceAddress(start.as_ptr().expose_provenance() as u64);
        // SAFETY: the caller's obligations are PINNED-SLICE-1; the provenance was exposed.
        unsafe { Self::from_raw(address, len) }
    }

    /// As [`from_raw_parts`](Self::from_raw_parts), to read and write.
    ///
    /// # Safety
    /// As there, and every other use of them, on the host too, is ordered before the work of `S` or
    /// after it.
    pub unsafe fn from_raw_parts_mut<'a>(start: NonNull<T>, len: usize) -> &'a mut Self {
        let address = DeviceAddress(start.as_ptr().expose_provenance() as u64);
        // SAFETY: the caller's obligations are PINNED-SLICE-1 and PINNED-SLICE-2; the provenance
        // was exposed.
        unsafe { Self::from_raw_mut(address, len) }
    }
}
