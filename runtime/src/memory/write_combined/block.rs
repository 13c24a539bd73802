//! [`WriteCombinedPool`]: a device's write-combined memory.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{During, Result};
use crate::memory::free_blocks::{FreeBlocks, size_class};
use crate::memory::mapped_host::keep;
use crate::observability;
use crate::order::fence::Fence;
use cuda_rt_driver::Driver;
use cuda_rt_driver::process::Kept;

/// Write-combined memory. It keeps the driver that allocated it alive (obligations 6 and 14).
///
/// # Invariants
/// WRITE-COMBINED-BLOCK-1. `address` is the start of an allocation of `bytes` bytes of `driver`,
/// which lives until this value is dropped, and which nothing else owns. Its provenance is exposed.
/// WRITE-COMBINED-BLOCK-2. When the block is dropped, no work of a GPU and no thread of the host
/// uses it.
/// WRITE-COMBINED-BLOCK-3. Kept from children of `fork` while it is allocated. Linux gives a child
/// the same pages, which the GPU and the parent go on to use.
pub(crate) struct WriteCombinedBlock {
    address: usize,
    bytes: usize,
    driver: Arc<dyn Driver>,
    kept: Option<Kept>,
}

impl fmt::Debug for WriteCombinedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteCombinedBlock({:#x}, {} bytes)", self.address, self.bytes)
    }
}

impl WriteCombinedBlock {
    pub(super) fn address(&self) -> NonNull<c_void> {
        // Never null: the address came from a `NonNull`.
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.address)).unwrap_or(NonNull::dangling())
    }
}

impl Drop for WriteCombinedBlock {
    fn drop(&mut self) {
        self.kept = None;
        // SAFETY: WRITE-COMBINED-BLOCK-1: the allocation is live. WRITE-COMBINED-BLOCK-2: nothing
        // uses it, and nothing can after this drop. An error leaks the memory.
        let _ = unsafe { self.driver.free_write_combined(self.address()) };
    }
}

/// Blocks are whole numbers of pages of this size.
const PAGE: usize = 64 << 10;

/// A device's write-combined memory, for reuse. Pinned blocks, which the processor caches, are in
/// another pool.
#[derive(Debug)]
pub(crate) struct WriteCombinedPool {
    driver: Arc<dyn Driver>,
    free: FreeBlocks<WriteCombinedBlock>,
}

impl WriteCombinedPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            free: FreeBlocks::default(),
        }
    }

    /// A block of at least `bytes` bytes that nothing uses, for the call `during`.
    pub(super) fn take(&self, bytes: usize, during: &'static str) -> Result<WriteCombinedBlock> {
        let bytes = size_class(bytes, PAGE);
        if let Some(block) = self.free.reuse(bytes) {
            return Ok(block);
        }
        let driver = Arc::clone(&self.driver);
        let address = driver.alloc_write_combined(bytes).during(during)?;
        let mut block = WriteCombinedBlock {
            address: address.as_ptr().expose_provenance(),
            bytes,
            driver,
            kept: None,
        };
        // SAFETY: the memory is mapped until the drop of the block, which drops this before. Only
        // CUDA puts other memory into its pages, of which a child has no use.
        block.kept = Some(unsafe { keep(address, bytes) }.during(during)?);
        Ok(block)
    }

    /// Takes back a block that may be reused once `fence` is over.
    pub(crate) fn give_back(&self, block: WriteCombinedBlock, fence: Fence) {
        self.free.give_back(block.bytes, block, fence);
    }

    /// Frees the free blocks whose last use was seen complete, and returns their size in bytes.
    pub(crate) fn trim(&self) -> usize {
        let given_back = self.free.trim(usize::MAX);
        observability::pool_trimmed(&*self.driver, "write-combined", given_back);
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
