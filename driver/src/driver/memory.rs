//! Memory of the device, and page-locked memory of the host.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::calls::group;
use crate::{DeviceAddress, DriverResult, HostMemory, MemoryInfo, MemoryPoolStats, RawStream};

group! {
    /// Memory: the device's pool, and page-locked memory of the host.
    pub trait Memory, forwarded by $memory_calls {
        /// Free and total device memory, in bytes (`cuMemGetInfo`). Memory that the pool keeps for
        /// reuse counts as used.
        fn memory_info(&self) -> DriverResult<MemoryInfo>;

        /// Allocates `bytes` (more than 0) in stream order from the device's own pool, aligned to
        /// 256 bytes (`cuMemAllocFromPoolAsync`). What the memory holds is unspecified.
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn alloc(&self, bytes: usize, stream: RawStream) -> DriverResult<DeviceAddress>;

        /// Frees in stream order (`cuMemFreeAsync`).
        ///
        /// # Safety
        /// `address` came from [`alloc`](Self::alloc) of this driver, every use is ordered before
        /// this place in `stream`, and it is not used again.
        unsafe fn free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()>;

        /// Notes that memory is free from this place in `stream` on, and stays allocated for its
        /// next owner. Makes no call of CUDA. A simulated device overwrites the memory, and a
        /// checker treats the call as a write.
        ///
        /// # Safety
        /// As for [`free`](Self::free), except that the memory may be used again after
        /// [`note_alloc`](Self::note_alloc).
        unsafe fn note_free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()>;

        /// Notes that memory, of which [`note_free`](Self::note_free) said that it is free, has an
        /// owner again from this place in `stream` on. What the memory holds is unspecified. Makes
        /// no call of CUDA. A simulated device overwrites the memory, and a checker treats the call
        /// as a write.
        ///
        /// # Safety
        /// The handle is live. The place of [`note_free`](Self::note_free) is ordered before this
        /// place in `stream`.
        unsafe fn note_alloc(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()>;

        /// What the pool of [`alloc`](Self::alloc) holds (`cuMemPoolGetAttribute`).
        fn pool_stats(&self) -> DriverResult<MemoryPoolStats>;

        /// Restarts the peaks of [`pool_stats`](Self::pool_stats) at the present values
        /// (`cuMemPoolSetAttribute`).
        fn reset_pool_peaks(&self) -> DriverResult<()>;

        /// Sets how many unused bytes the pool keeps when the host synchronises with a stream or
        /// event (`cuMemPoolSetAttribute`). At first the pool keeps all.
        fn set_release_threshold(&self, bytes: u64) -> DriverResult<()>;

        /// Returns unused memory to the device until the pool holds at most `keep_bytes`, or has no
        /// unused memory left (`cuMemPoolTrimTo`). Memory whose free is still pending counts as
        /// used. May block.
        fn trim_pool(&self, keep_bytes: u64) -> DriverResult<()>;

        /// Page-locks host memory for every context of the process (`cuMemHostRegister`, portable
        /// and mapped), so that copies from and to it are asynchronous, and kernels reach it
        /// ([`mapped_address`](Self::mapped_address)).
        ///
        /// # Safety
        /// The memory stays mapped until [`unregister_host`](Self::unregister_host), and is not
        /// registered yet.
        unsafe fn register_host(&self, memory: &HostMemory) -> DriverResult<()>;

        /// Undoes [`register_host`](Self::register_host) (`cuMemHostUnregister`). May block.
        ///
        /// # Safety
        /// `memory` is registered here and no pending work uses it.
        unsafe fn unregister_host(&self, memory: &HostMemory) -> DriverResult<()>;

        /// Allocates `bytes` (more than 0) of page-locked host memory that the host's processor
        /// does not cache, but combines the writes of (`cuMemHostAlloc`,
        /// `CU_MEMHOSTALLOC_WRITECOMBINED`, portable and mapped), aligned to a page. What the
        /// memory holds is unspecified. May block.
        ///
        /// The host uses it inside [`while_mapped`](super::Managed::while_mapped) only: exit
        /// handlers may unmap it.
        fn alloc_write_combined(&self, bytes: usize) -> DriverResult<NonNull<c_void>>;

        /// Frees write-combined memory (`cuMemFreeHost`). May block until the device has no work.
        ///
        /// # Safety
        /// `address` came from [`alloc_write_combined`](Self::alloc_write_combined) of this driver,
        /// every use is over, and it is not used again.
        unsafe fn free_write_combined(&self, address: NonNull<c_void>) -> DriverResult<()>;

        /// The address by which work of this device reaches page-locked host memory
        /// (`cuMemHostGetDevicePointer`). `address` may lie inside an allocation; the bytes from
        /// there to the allocation's end follow at the result.
        ///
        /// Kernels, copies and fills of this device take the result, as long as the memory stays
        /// page-locked. Under Linux the two addresses are equal, except perhaps those of
        /// write-combined memory. A checker follows memory by its
        /// address, so it sees both uses as uses of the same bytes only where they are equal.
        ///
        /// Returns an error if no page-locked memory of the process is at `address`.
        fn mapped_address(&self, address: NonNull<c_void>) -> DriverResult<DeviceAddress>;
    }
}
