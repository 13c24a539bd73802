//! What a device's memory pools hold, how much they may, and giving it back.

use crate::device::Device;
use crate::error::{During, Result};
use crate::memory::PinnedStats;
use crate::tag::Live;
use cuda_rt_driver::MemoryPoolStats;

/// The stream-ordered pool that device buffers come from, and the pool of pinned host memory.
///
/// Both keep what is freed, so that a steady state allocates nothing: a service that once needed
/// much memory holds it until it is asked to let go. Neither ever gives back memory that pending
/// work uses.
impl<D: Live> Device<D> {
    /// What the device's memory pool holds, and the most it held (`cuMemPoolGetAttribute`). All
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

    /// Starts the peaks of [`memory_pool_stats`](Self::memory_pool_stats) anew, from what is held
    /// and used now (`cuMemPoolSetAttribute`).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn reset_memory_peaks(&self) -> Result<()> {
        self.core()
            .driver()
            .reset_pool_peaks()
            .during("Device::reset_memory_peaks")
    }

    /// How much unused memory the pool keeps, in bytes, when the host waits for a stream or a
    /// handoff (`cuMemPoolSetAttribute`). At first it keeps all: memory that goes back to the
    /// device at each wait must be mapped anew by the next allocation, which takes CUDA hundreds of
    /// microseconds.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        self.core()
            .driver()
            .set_release_threshold(bytes)
            .during("Device::set_release_threshold")
    }

    /// Gives unused device memory back, for other processes and libraries, until the pool holds
    /// `keep_bytes` or nothing else unused (`cuMemPoolTrimTo`). Memory whose free is still pending
    /// stays; synchronise first to give that back too. May block.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn trim(&self, keep_bytes: u64) -> Result<()> {
        self.core().driver().trim_pool(keep_bytes).during("Device::trim")
    }

    /// What the pinned pool of this device holds. Calls nothing.
    pub fn pinned_stats(&self) -> PinnedStats {
        self.core().pinned().stats()
    }

    /// The most pinned memory, in bytes, that this device may have page-locked at once, in use or
    /// kept for reuse; `None`, as at first, for no limit. Page-locked memory is taken from everyone
    /// on the machine. A limit below what is held stops growth, and gives nothing back by itself.
    ///
    /// When a new block would pass it, free blocks of other sizes are unmapped first; if that is
    /// not enough, [`Device::pinned`] fails with [`PinnedError::Limit`](crate::PinnedError::Limit).
    pub fn set_pinned_limit(&self, bytes: Option<usize>) {
        self.core().pinned().set_limit(bytes);
    }

    /// Unmaps free pinned blocks until no more than `keep_bytes` are page-locked, and returns how
    /// many bytes that gave back (`cuMemHostUnregister`, which may block). Blocks in use, and those
    /// whose last use was not seen complete, stay.
    pub fn trim_pinned(&self, keep_bytes: usize) -> usize {
        self.core().pinned().trim(keep_bytes)
    }
}
