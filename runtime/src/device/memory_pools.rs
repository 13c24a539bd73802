//! The sizes and limits of a device's memory pools, and calls that give memory back.

use crate::device::Device;
use crate::error::{During, Result};
use crate::memory::PinnedStats;
use crate::tag::Live;
use cuda_rt_driver::MemoryPoolStats;

/// The stream-ordered pool that device buffers come from, and the pool of pinned host memory.
///
/// Both pools keep freed memory, so a steady state allocates nothing. A service that once needed
/// much memory keeps it until the program trims the pools. Neither pool gives back memory that
/// pending work uses.
impl<D: Live> Device<D> {
    /// The sizes and peaks of the device's memory pool, in bytes (`cuMemPoolGetAttribute`). All
    /// instances of one GPU in the process share the pool. Does not wait.
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
        self.core()
            .driver()
            .pool_stats()
            .during("Device::memory_pool_stats")
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
    /// handoff (`cuMemPoolSetAttribute`). By default the pool keeps all. If memory went back to the
    /// device at each wait, the next allocation would have to map it again, which takes CUDA
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
        self.core()
            .driver()
            .set_release_threshold(bytes)
            .during("Device::set_release_threshold")
    }

    /// Gives unused device memory back, for other processes and libraries, until the pool holds
    /// `keep_bytes` bytes or has no unused memory left (`cuMemPoolTrimTo`). Memory whose free is
    /// still pending stays: synchronise first to give it back too. May block.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn trim(&self, keep_bytes: u64) -> Result<()> {
        self.core().driver().trim_pool(keep_bytes).during("Device::trim")
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
