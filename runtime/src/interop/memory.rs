//! Memory of other libraries, and memory that is given away.

use std::ptr::NonNull;

use crate::device::Device;
use crate::error::Unordered;
use crate::memory::{DeviceBuffer, DeviceSlice, Foreign, PinnedBuffer, PinnedSlice};
use crate::stream::Stream;
use crate::tag::{Idle, Live, StreamTag};
use cuda_rt_driver::{CallSite, DeviceAddress};

impl<T, S: StreamTag> DeviceBuffer<T, S> {
    /// Takes memory over that another library allocated; `len` is in elements. The buffer frees it
    /// with `cuMemFreeAsync`, in the order of its last stream. Calls nothing of the driver. If
    /// `len` is 0, the address is ignored.
    ///
    /// A capture takes no memory over, because its graph would free it at each launch. Take the
    /// memory over outside, and give the buffer to [`Stream::capture`].
    ///
    /// # Safety
    /// 1. `address` is the start of a stream-ordered allocation of the device of `stream`
    ///    (`cuMemAllocAsync`, `cuMemAllocFromPoolAsync`; of at least `len` elements), or came from
    ///    [`into_raw`](Self::into_raw) of the same device. Nothing else will use or free the
    ///    memory. Its pool lives until the memory is freed. A device to which the memory is lent
    ///    ([`acquire_peer`](Stream::acquire_peer)) has access to the pool.
    /// 2. Every enqueued use of the memory is ordered before the present end of `stream`.
    /// 3. The memory is aligned for `T`. After these uses it holds values of `T`, unless `T` is
    ///    [`MaybeUninit`](std::mem::MaybeUninit).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt::DeviceBuffer;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let (address, len) = compute.alloc_from_slice(&[1_u32, 2])?.into_raw();
    /// // SAFETY: from `into_raw` of this device, and used in the order of this stream only.
    /// let buffer = unsafe { DeviceBuffer::<u32, Compute>::from_raw(&compute, address, len) };
    /// assert_eq!(compute.copy_to_vec(&buffer)?, [1, 2]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub unsafe fn from_raw(stream: &Stream<S>, address: DeviceAddress, len: usize) -> Self
    where
        S::Device: Live,
    {
        // SAFETY: this function's contract is BUFFER-1 and BUFFER-2. BUFFER-3: the stream is `S`.
        unsafe { Self::from_raw_at(stream.core(), stream.at(), address, len) }
    }

    /// Takes memory over that another library allocated in any way (`cuMemAlloc`, an import from
    /// another process, the library's own pool). `release` gives it back once its last use is over.
    /// Calls nothing of the driver.
    ///
    /// The buffer moves, splits and drops like any buffer, and the drop never blocks. `release`
    /// runs on the device's thread for closures ([`Handoff::on_done`](crate::Handoff::on_done)),
    /// after the events of all uses were seen done. It may call anything, also a call that waits
    /// for the device (`cuMemFree`). A panic in `release` reaches the panic hook, and goes no
    /// further. If the end of a use is never known (after a sticky error, or if no thread can be
    /// started), `release` and its captures are leaked. If `len` is 0, the address is ignored, and
    /// `release` still runs.
    ///
    /// A checker that follows the device treats the release as a write by the host.
    ///
    /// A capture takes no memory over: its body ends long before the launches of its graph, and the
    /// end of the body is no end of a use. Take the memory over outside, and give the buffer to
    /// [`Stream::capture`]: the graph then keeps it.
    ///
    /// # Safety
    /// 1. `address` is the address of `len` elements of memory that the device of `stream` can read
    ///    and write until `release` runs. Nothing else uses or frees the memory until then.
    /// 2. and 3. As for [`from_raw`](Self::from_raw).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # use cuda_rt::DeviceBuffer;
    /// let compute = gpu.stream::<Compute>()?;
    /// // Someone else's from here on.
    /// let (address, len) = compute.alloc_zeroed::<f32>(64)?.into_raw();
    /// let (given_back, end) = std::sync::mpsc::channel();
    /// let release = move || given_back.send(address).expect("the other end waits");
    /// // SAFETY: no one uses or frees it before it was received below; zeroed in the order of
    /// // `compute`.
    /// let buffer =
    ///     unsafe { DeviceBuffer::<f32, _>::from_foreign(&compute, address, len, release) };
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
    ) -> Self
    where
        S::Device: Live,
    {
        let passed = CallSite::here("DeviceBuffer::from_foreign");
        let foreign = Foreign::new(stream.core(), address, len * size_of::<T>(), passed, release);
        // SAFETY: this function's contract is BUFFER-1 and BUFFER-2. BUFFER-3: the stream is `S`.
        unsafe { Self::from_foreign_at(stream.core(), stream.at(), address, len, foreign) }
    }

    /// Gives the memory away: returns its address and its length in elements. Calls nothing of the
    /// driver. The new owner frees the memory (`cuMemFreeAsync`) after the present work of this
    /// stream, or gives it [back](Self::from_raw). A buffer of 0 bytes has an address of no memory,
    /// which must not be freed. Memory of a capture stays with its graph, and cannot be given away.
    ///
    /// Leaking memory is safe, so the call is safe; a use of the address is not. The device must
    /// stay open: its pool ends with the last handle of the device.
    ///
    /// # Panics
    /// If the buffer is a part that was [split off](DeviceBuffer::split_off) and not joined again:
    /// the part alone cannot be freed. If the memory is [foreign](Self::from_foreign). If a
    /// [loan](Stream::lend) on this device could not be joined: nothing then says when the uses of
    /// the memory end.
    #[track_caller]
    pub fn into_raw(self) -> (DeviceAddress, usize)
    where
        S::Device: Live,
    {
        if let Err(Unordered { cause, .. }) = self.core().check() {
            panic!("memory of a device whose work is not ordered any more cannot be given away: {cause}");
        }
        let (address, len) = (self.address(), self.len());
        self.forget_memory();
        (address, len)
    }
}

impl<T, D: Live> PinnedBuffer<T, Idle<D>> {
    /// Takes page-locked memory of another library over; `len` is in elements. `release` gives it
    /// back once its last use is over. The CPU reaches the memory while the buffer is idle, and
    /// copies of a stream while that stream owns it. Calls nothing of the driver.
    ///
    /// `release` runs as for [`DeviceBuffer::from_foreign`], also if the buffer is dropped idle.
    /// The device's pool and its [limit](Device::set_pinned_limit) do not count the memory.
    /// `release` may unmap the memory, or drop its owner. If `release` never runs, its captures are
    /// leaked.
    ///
    /// Write-combined memory (`cuMemHostAlloc` with `CU_MEMHOSTALLOC_WRITECOMBINED`) needs no
    /// unsafe code: [`Device::write_combined`].
    ///
    /// # Safety
    /// Until `release` runs:
    /// 1. `start` is the address of `len` elements that are mapped and page-locked for every GPU of
    ///    the process (`cuMemHostAlloc` or `cuMemHostRegister`, portable). One allocation holds all
    ///    of them. No other code reads, writes or unlocks them, also no reset of a context and no
    ///    child of `fork`.
    /// 2. They are aligned for `T` and initialised to values of `T`.
    /// 3. No work that uses them is pending at the call.
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
        // SAFETY: this function's contract is PINNED-1 to PINNED-3.
        unsafe { Self::from_foreign_at(gpu.core(), start, len, passed, foreign) }
    }
}

impl<T, S: StreamTag> DeviceSlice<T, S> {
    /// Views memory that another library keeps, for `S` to read; `len` is in elements.
    ///
    /// # Safety
    /// For `'a`, and until the work of `S` that uses the slice by then is over (in a capture: until
    /// the graph is dropped and its launches are over, because the work runs at each launch):
    /// 1. `address` is the address of `len` elements of memory that the device of `S` can address.
    ///    It is not 0, also if `len` is 0.
    /// 2. They are aligned for `T`, and hold values of `T`, unless `T` is
    ///    [`MaybeUninit`](std::mem::MaybeUninit).
    /// 3. Writes to them are ordered before the work of `S`, and nothing else writes them.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt::DeviceSlice;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let kept = compute.alloc_from_slice(&[1_u32, 2, 3])?; // a library keeps it
    /// let (address, len) = (kept.address(), kept.len());
    /// let mut copy = compute.alloc_zeroed::<u32>(3)?;
    /// // SAFETY: live, of 3 numbers, and written in the order of `compute` only.
    /// let borrowed = unsafe { DeviceSlice::<u32, Compute>::from_raw_parts(address, len) };
    /// compute.copy(borrowed, &mut copy)?;
    /// // SAFETY: as above, and nothing else uses it in the meantime.
    /// let borrowed = unsafe { DeviceSlice::<u32, Compute>::from_raw_parts_mut(address, len) };
    /// compute.fill(borrowed, 7)?;
    /// assert_eq!(compute.copy_to_vec(&copy)?, [1, 2, 3]);
    /// assert_eq!(compute.copy_to_vec(&kept)?, [7; 3]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub unsafe fn from_raw_parts<'a>(address: DeviceAddress, len: usize) -> &'a Self {
        // SAFETY: this function's contract is SLICE-1, and no `&mut` overlaps the memory.
        unsafe { Self::from_raw(address, len) }
    }

    /// As [`from_raw_parts`](Self::from_raw_parts), to read and write.
    ///
    /// # Safety
    /// As for [`from_raw_parts`](Self::from_raw_parts), and every other use of the elements is
    /// ordered before the work of `S` or after it.
    pub unsafe fn from_raw_parts_mut<'a>(address: DeviceAddress, len: usize) -> &'a mut Self {
        // SAFETY: this function's contract is SLICE-1 and SLICE-2.
        unsafe { Self::from_raw_mut(address, len) }
    }
}

/// The message of an address that breaks the contract below.
const MISALIGNED: &str = "page-locked memory of another library is not aligned for its elements";

impl<T, S: StreamTag> PinnedSlice<T, S> {
    /// Views page-locked memory that another library keeps, for `S` to read; `len` is in elements.
    ///
    /// # Safety
    /// For `'a`, and until the work of `S` that uses the slice by then is over (in a capture: until
    /// the graph is dropped and its launches are over, because the work runs at each launch):
    /// 1. `start` is the address of `len` elements that are mapped, page-locked for the device of
    ///    `S` (`cuMemHostAlloc`, `cuMemHostRegister`), aligned for `T` and initialised to values of
    ///    `T`. If `len` is 0, `start` may be any address that is aligned for `T`.
    /// 2. Writes to them are ordered before the work of `S`, and nothing else writes them, also not
    ///    on the host.
    pub unsafe fn from_raw_parts<'a>(start: NonNull<T>, len: usize) -> &'a Self {
        debug_assert!(start.is_aligned(), "{MISALIGNED}");
        let address = DeviceAddress(start.as_ptr().expose_provenance() as u64);
        // SAFETY: this function's contract is PINNED-SLICE-1. The provenance was exposed above.
        unsafe { Self::from_raw(address, len) }
    }

    /// As [`from_raw_parts`](Self::from_raw_parts), to read and write.
    ///
    /// # Safety
    /// As for [`from_raw_parts`](Self::from_raw_parts), and every other use of the elements, also
    /// on the host, is ordered before the work of `S` or after it.
    pub unsafe fn from_raw_parts_mut<'a>(start: NonNull<T>, len: usize) -> &'a mut Self {
        debug_assert!(start.is_aligned(), "{MISALIGNED}");
        let address = DeviceAddress(start.as_ptr().expose_provenance() as u64);
        // SAFETY: this function's contract is PINNED-SLICE-1 and PINNED-SLICE-2. The provenance was
        // exposed above.
        unsafe { Self::from_raw_mut(address, len) }
    }
}
