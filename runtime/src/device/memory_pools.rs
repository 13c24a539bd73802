//! The sizes and limits of a device's memory pools, and calls that give memory back.

use crate::device::Device;
use crate::error::{During, Result};
use crate::memory::PinnedStats;
use crate::tag::Live;
use cuda_rt_driver::MemoryPoolStats;

/// The memory that device buffers come from, and the pool of pinned host memory.
///
/// Both keep freed memory, so a steady state allocates nothing. A service that once needed much
/// memory keeps it until the program trims the pools. Neither gives back memory that pending work
/// uses.
///
/// Device memory is kept in two places. A stream keeps the blocks of its dropped buffers, and the
/// next buffer of that size on the stream takes one, without a call of CUDA. What the streams do
/// not keep is in a pool of CUDA's. [`set_memory_caching`](Self::set_memory_caching) has more.
impl<D: Live> Device<D> {
    /// The sizes and peaks of the device's memory pool, in bytes (`cuMemPoolGetAttribute`). All
    /// instances of one GPU in the process share the pool. Does not wait.
    ///
    /// `used_bytes` counts memory in buffers. Blocks that this instance keeps for reuse count as
    /// reserved only. To CUDA they are in use, so `used_peak_bytes` includes them. Sizes are of
    /// blocks, which are up to an eighth larger than the buffers in them.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let buffer = compute.alloc_zeroed::<u8>(1 << 20)?;
    /// assert!(gpu.memory_pool_stats()?.used_bytes >= 1 << 20);
    /// drop(buffer);
    /// compute.synchronize()?; // the free is stream-ordered
    /// gpu.trim(0)?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn memory_pool_stats(&self) -> Result<MemoryPoolStats> {
        let core = self.core();
        let mut stats = core.driver().pool_stats().during("Device::memory_pool_stats")?;
        // Another thread may have moved blocks in between.
        stats.used_bytes = stats.used_bytes.saturating_sub(core.memory().free_bytes() as u64);
        Ok(stats)
    }

    /// Switches the reuse of device memory on or off; at first it is on. Does not block.
    ///
    /// With reuse, a dropped buffer leaves its block of memory to the stream that owned it last,
    /// and the stream's next buffer of that size takes the block. No call of CUDA is made. A stream
    /// keeps as many blocks of a size as were allocated for it. A block beyond this number goes to
    /// the first stream that needs one, once its last use was seen over. Sizes are multiples of 512
    /// bytes up to 8 KiB, eight to each power of two up to 512 MiB, and multiples of 32 MiB beyond.
    /// So a block is at most an eighth larger than a buffer of 4 KiB or more.
    ///
    /// An allocation that finds no block takes one from CUDA's pool (`cuMemAllocFromPoolAsync`), on
    /// a stream of its own, and waits for that stream, which has no other work. A stream that
    /// allocates from the pool itself is slower ever after: on an H200 an event costs half as much
    /// again. Adopted streams keep no blocks, and call CUDA each time.
    ///
    /// What is kept is given back by [`trim`](Self::trim) and
    /// [`set_release_threshold`](Self::set_release_threshold), and if an allocation would fail.
    ///
    /// Without reuse each buffer is an allocation of its own (`cuMemAllocFromPoolAsync`,
    /// `cuMemFreeAsync`), exactly as long as the buffer. `compute-sanitizer` then sees each access
    /// outside a buffer. Where the environment has `CUDA_RT_NO_MEMORY_CACHING=1` as a device is
    /// opened, its reuse is off from the start. Switched off, it first gives back the blocks whose
    /// last use is over. Buffers that exist are freed by CUDA when they are dropped.
    ///
    /// ```
    /// # use cuda_rt::simulator::{Call, SimConfig};
    /// # cuda_rt::streams! { pub Compute; }
    /// # cuda_rt::Device::simulated(SimConfig::new(), |gpu| {
    /// let compute = gpu.stream::<Compute<_>>()?;
    /// for _ in 0..100 {
    ///     drop(compute.alloc_zeroed::<f32>(1024)?); // all in one block
    /// }
    /// # let calls = |call| gpu.simulator().unwrap().counters().calls(call);
    /// # assert_eq!((calls(Call::Alloc), calls(Call::Free)), (1, 0));
    /// gpu.set_memory_caching(false);
    /// drop(compute.alloc_zeroed::<f32>(1024)?); // allocated by CUDA, and freed by CUDA
    /// # assert_eq!(calls(Call::Alloc), 2);
    /// # Ok::<(), cuda_rt::Error>(())
    /// # })??;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn set_memory_caching(&self, caching: bool) {
        let memory = self.core().memory();
        memory.set_caching(caching);
        if !caching && memory.free_bytes() > 0 {
            memory.give_back(usize::MAX);
        }
    }

    /// Resets the peaks of [`memory_pool_stats`](Self::memory_pool_stats) to the present sizes
    /// (`cuMemPoolSetAttribute`).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn reset_memory_peaks(&self) -> Result<()> {
        self.core()
            .driver()
            .reset_pool_peaks()
            .during("Device::reset_memory_peaks")
    }

    /// Sets how many bytes of unused memory the pool keeps when the host waits for a stream or a
    /// handoff (`cuMemPoolSetAttribute`), and how many bytes the streams of this instance keep for
    /// reuse. The streams give back what they have beyond that, as [`trim`](Self::trim) does, and a
    /// buffer that is dropped beyond that is freed. By default both keep all. If memory went back
    /// to the device at each wait, the next allocation would have to map it again, which takes CUDA
    /// hundreds of microseconds.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// gpu.set_release_threshold(64 << 20)?; // keep 64 MiB at each wait
    /// gpu.reset_memory_peaks()?;
    /// let work = compute.alloc_zeroed::<u8>(1 << 20)?;
    /// drop(work);
    /// compute.synchronize()?;
    /// assert!(gpu.memory_pool_stats()?.used_peak_bytes >= 1 << 20); // of this phase alone
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        let core = self.core();
        core.driver()
            .set_release_threshold(bytes)
            .during("Device::set_release_threshold")?;
        core.memory().set_most_bytes(bytes);
        Ok(())
    }

    /// Gives unused device memory back, for other processes and libraries, until the pool holds
    /// `keep_bytes` bytes or has no unused memory left (`cuMemPoolTrimTo`). Blocks that this
    /// instance keeps for reuse are freed first. A stream's blocks are freed if the stream has no
    /// work left (`cuStreamQuery`). Memory that may still be in use stays: synchronise first to
    /// give it back too. May block.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn trim(&self, keep_bytes: u64) -> Result<()> {
        let (driver, memory) = (self.core().driver(), self.core().memory());
        if memory.free_bytes() > 0 {
            let used = driver.pool_stats().during("Device::trim")?.used_bytes;
            let too_much = used.saturating_sub(keep_bytes);
            memory.give_back(usize::try_from(too_much).unwrap_or(usize::MAX));
        }
        driver.trim_pool(keep_bytes).during("Device::trim")
    }

    /// The figures of this device's pinned pool. Calls nothing of the driver.
    pub fn pinned_stats(&self) -> PinnedStats {
        self.core().pinned().stats()
    }

    /// Limits the pinned memory, in bytes, that this device may have page-locked at once, in use or
    /// kept for reuse. `None`, the default, is no limit. Page-locked memory is lost to all other
    /// processes on the machine. A limit below the present size stops growth, and gives nothing
    /// back by itself.
    ///
    /// If a new block would exceed the limit, free blocks of other sizes are unmapped first. If
    /// that is not enough, [`Device::pinned`] fails with
    /// [`PinnedError::Limit`](crate::PinnedError::Limit).
    ///
    /// Copies to and from ordinary memory ([`copy_to_vec`](crate::Stream::copy_to_vec),
    /// [`alloc_from_slice`](crate::Stream::alloc_from_slice) and the like) go through two pieces of
    /// this memory, of 4 MiB at most each. The pieces count too, and these calls fail in the same
    /// way.
    ///
    /// ```
    /// # use cuda_rt::simulator::SimConfig;
    /// use cuda_rt::{Device, Error, PinnedError};
    ///
    /// # Device::simulated(SimConfig::new(), |gpu| {
    /// gpu.set_pinned_limit(Some(1 << 20));
    /// let buffer = gpu.pinned::<u8>(1 << 20)?;
    /// let refused = gpu.pinned::<u8>(1 << 20);
    /// assert!(matches!(refused, Err(Error::Pinned(PinnedError::Limit { .. }))));
    ///
    /// drop(buffer); // its block is kept for the next buffer of that size
    /// assert_eq!(gpu.pinned_stats().bytes_free, 1 << 20);
    /// assert_eq!(gpu.trim_pinned(0), 1 << 20); // given back to the operating system
    /// assert_eq!(gpu.pinned_stats().bytes_held, 0);
    /// # Ok::<(), Error>(())
    /// # })??;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_pinned_limit(&self, bytes: Option<usize>) {
        self.core().pinned().set_limit(bytes);
    }

    /// Unmaps free pinned blocks until no more than `keep_bytes` are page-locked, and returns the
    /// number of bytes given back (`cuMemHostUnregister`, which may block). Blocks in use, and
    /// those whose last use was not seen complete, stay.
    pub fn trim_pinned(&self, keep_bytes: usize) -> usize {
        self.core().pinned().trim(keep_bytes)
    }
}
