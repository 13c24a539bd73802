//! Managed memory, which the host and devices reach by one address.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::calls::group;
use crate::{Advice, DriverResult, Location, RawStream};

group! {
    /// Managed memory: its pages move between the memory of the host and of devices.
    pub trait Managed, forwarded by $managed_calls {
        /// Allocates `bytes` (more than 0) of managed memory that every stream of every device may
        /// use (`cuMemAllocManaged`, `CU_MEM_ATTACH_GLOBAL`), aligned to 256 bytes or more. What
        /// the memory holds is unspecified. May block.
        ///
        /// Returns an error (`NOT_SUPPORTED`) if the host may not use managed memory while kernels
        /// run, on this or any other device of the process ([`concurrent_managed_access`]).
        ///
        /// [`concurrent_managed_access`]: crate::Properties::concurrent_managed_access
        fn alloc_managed(&self, bytes: usize) -> DriverResult<NonNull<c_void>>;

        /// Frees managed memory (`cuMemFree`). May block until the device has no work.
        ///
        /// # Safety
        /// `address` came from [`alloc_managed`](Self::alloc_managed) of this driver, every use is
        /// over, and it is not used again.
        unsafe fn free_managed(&self, address: NonNull<c_void>) -> DriverResult<()>;

        /// Moves the pages of managed memory, in stream order (`cuMemPrefetchAsync`). The bytes
        /// stay the same.
        ///
        /// # Safety
        /// The range is live managed memory until the stream has come so far, and the stream is not
        /// being captured.
        unsafe fn prefetch(
            &self,
            address: NonNull<c_void>,
            bytes: usize,
            to: Location,
            stream: RawStream,
        ) -> DriverResult<()>;

        /// Advises CUDA about the use of managed memory (`cuMemAdvise`). Not stream-ordered: it
        /// holds for all later uses.
        ///
        /// # Safety
        /// The range is live managed memory.
        unsafe fn advise(
            &self,
            address: NonNull<c_void>,
            bytes: usize,
            advice: Advice,
        ) -> DriverResult<()>;

        /// Runs `body` once, while managed and write-combined memory stay mapped: the process's
        /// exit handlers, which may unmap them, wait for the end of `body`. A driver that wraps
        /// another must pass the call on. If the call returns an error, `body` has not run.
        fn while_mapped(&self, body: &dyn Fn()) -> DriverResult<()>;
    }
}
