//! [`ManagedPool`]: a device's managed memory, in blocks that are reused.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::free_blocks::{FreeBlocks, size_class};
use super::mapped_host::keep;
use crate::error::{During, Result};
use crate::observability;
use crate::order::fence::Fence;
use cuda_rt_driver::process::{Kept, Process};
use cuda_rt_driver::{Advice, Driver, DriverError, DriverResult, ErrorCode, Location};

/// Managed memory. It keeps the driver that allocated it alive (obligations 6 and 14).
///
/// # Invariants
/// MANAGED-BLOCK-1. `address` is the start of an allocation of `bytes` bytes of `driver`, which
/// lives until this value is dropped, and which nothing else owns. Its provenance is exposed.
/// MANAGED-BLOCK-2. When the block is dropped, no work of a GPU and no thread of the host uses it.
/// MANAGED-BLOCK-3. Kept from children of `fork` while it is allocated. A child has no pages at its
/// addresses, and Linux would map other memory of the child there.
pub(crate) struct ManagedBlock {
    address: usize,
    bytes: usize,
    driver: Arc<dyn Driver>,
    kept: Option<Kept>,
    /// Whether CUDA was advised about the block, and must forget that before the next owner.
    advised: AtomicBool,
}

impl fmt::Debug for ManagedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManagedBlock({:#x}, {} bytes)", self.address, self.bytes)
    }
}

impl ManagedBlock {
    fn alloc(driver: &Arc<dyn Driver>, bytes: usize) -> Result<Self> {
        const DURING: &str = "Device::managed";
        let address = driver.alloc_managed(bytes).during(DURING)?;
        let mut block = Self {
            address: address.as_ptr().expose_provenance(),
            bytes,
            driver: Arc::clone(driver),
            kept: None,
            advised: AtomicBool::new(false),
        };
        // SAFETY: the memory is mapped until the drop of the block, which drops this before. Only
        // CUDA puts other memory into its pages, of which a child has no use.
        block.kept = Some(unsafe { keep(address, bytes) }.during(DURING)?);
        Ok(block)
    }

    pub(crate) fn address(&self) -> NonNull<c_void> {
        // Never null: the address came from a `NonNull`.
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.address)).unwrap_or(NonNull::dangling())
    }

    /// Advises CUDA about `bytes` bytes from `offset` on.
    ///
    /// # Panics
    /// If the range is not within the block.
    pub(crate) fn advise(&self, offset: usize, bytes: usize, advice: Advice) -> Result<()> {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "inside the block"
        );
        // Noted first: a call that fails or unwinds may have advised.
        self.advised.store(true, Ordering::Relaxed);
        // SAFETY: MANAGED-BLOCK-1: the block is live; the range was just compared with it.
        let start = unsafe { self.address().byte_add(offset) };
        // SAFETY: as above.
        unsafe { self.driver.advise(start, bytes, advice) }.during("ManagedBuffer::advise")
    }

    /// Makes CUDA forget the advice of the last owner.
    fn forget_advice(&self) -> Result<()> {
        if !self.advised.load(Ordering::Relaxed) {
            return Ok(());
        }
        for advice in [
            Advice::UnsetReadMostly,
            Advice::UnsetPreferredLocation,
            Advice::UnsetAccessedBy(Location::Device),
            Advice::UnsetAccessedBy(Location::Host),
        ] {
            self.advise(0, self.bytes, advice)?;
        }
        self.advised.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for ManagedBlock {
    fn drop(&mut self) {
        self.kept = None;
        // SAFETY: MANAGED-BLOCK-1: the allocation is live. MANAGED-BLOCK-2: nothing uses it, and
        // nothing can after this drop. An error leaks the memory.
        let _ = unsafe { self.driver.free_managed(self.address()) };
    }
}

/// The size of the pages in which GPUs move managed memory.
const PAGE: usize = 64 << 10;

/// Managed memory of a device, for reuse.
#[derive(Debug)]
pub(crate) struct ManagedPool {
    driver: Arc<dyn Driver>,
    free: FreeBlocks<ManagedBlock>,
    /// The process in which the memory is mapped.
    process: Process,
}

impl ManagedPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            free: FreeBlocks::default(),
            process: Process::current(),
        }
    }

    /// An error in a process that was forked from the one in which the memory is mapped.
    pub(crate) fn check_process(&self) -> DriverResult<()> {
        if self.process.is_current() {
            return Ok(());
        }
        Err(DriverError::with_detail(
            "while_mapped",
            ErrorCode::NOT_INITIALIZED,
            format!(
                "this process was forked, and memory that CUDA maps stayed in its parent, process {}; open the device after `fork`",
                self.process.id()
            ),
        ))
    }

    /// A block of at least `bytes` bytes that nothing uses and about which nothing was advised.
    pub(crate) fn take(&self, bytes: usize) -> Result<ManagedBlock> {
        let class = size_class(bytes, PAGE);
        let Some(block) = self.free.reuse(class) else {
            return ManagedBlock::alloc(&self.driver, class);
        };
        // The block is idle, so on an error it may be freed.
        block.forget_advice()?;
        Ok(block)
    }

    /// Takes back a block that may be reused once `fence` is over.
    pub(crate) fn give_back(&self, block: ManagedBlock, fence: Fence) {
        self.free.give_back(block.bytes, block, fence);
    }

    /// Frees the free blocks whose last use was seen complete, and returns their size in bytes.
    pub(crate) fn trim(&self) -> usize {
        let given_back = self.free.trim(usize::MAX);
        observability::pool_trimmed(&*self.driver, "managed", given_back);
        given_back
    }

    /// The blocks that are kept for reuse, and their bytes.
    pub(crate) fn kept(&self) -> (usize, usize) {
        self.free.size()
    }

    /// Frees every free block, after a wait for the work that uses it. A block whose wait fails is
    /// leaked.
    pub(crate) fn close(&mut self) {
        self.free.close();
    }
}
