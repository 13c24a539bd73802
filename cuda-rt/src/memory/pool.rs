use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::{Driver, HostMemory};
use crate::error::{During, Error, Result};
use crate::fence::Fence;

/// Page-locked host memory, with the driver that locked it kept alive (DESIGN.md §5.6, §5.14).
///
/// # Invariants
/// K1. `memory` is registered with `driver` until this value is dropped.
/// K2. When it is dropped no work of a GPU uses it.
pub(crate) struct Block {
    memory: ManuallyDrop<HostMemory>,
    driver: Arc<dyn Driver>,
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.fmt(f)
    }
}

impl Block {
    fn map(driver: &Arc<dyn Driver>, bytes: usize) -> Result<Self> {
        let memory = HostMemory::map(bytes).map_err(|source| Error::HostMemory { bytes, source })?;
        // SAFETY: freshly mapped, so not registered; K1 keeps it mapped.
        unsafe { driver.register_host(&memory) }.during("Device::pinned")?;
        memory.address().as_ptr().expose_provenance();
        Ok(Self {
            memory: ManuallyDrop::new(memory),
            driver: Arc::clone(driver),
        })
    }

    pub(crate) fn address(&self) -> NonNull<c_void> {
        self.memory.address()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: K1 and K2.
        if unsafe { self.driver.unregister_host(&self.memory) }.is_ok() {
            // SAFETY: not used after this. Memory that is still registered stays mapped instead.
            unsafe { ManuallyDrop::drop(&mut self.memory) }
        }
    }
}

/// What the pinned pool of a device holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedStats {
    /// Blocks mapped and page-locked since the device was opened; buffers made from reused blocks add none.
    pub blocks_mapped: usize,
    /// Their bytes.
    pub bytes_mapped: usize,
    /// Blocks in the pool now, those with pending work included.
    pub blocks_free: usize,
}

/// Page-locked blocks for reuse, each with the fence of its last use.
#[derive(Debug)]
pub(crate) struct PinnedPool {
    driver: Arc<dyn Driver>,
    free: Mutex<BTreeMap<usize, VecDeque<(Fence, Block)>>>,
    blocks_mapped: AtomicUsize,
    bytes_mapped: AtomicUsize,
}

impl PinnedPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            free: Mutex::default(),
            blocks_mapped: AtomicUsize::new(0),
            bytes_mapped: AtomicUsize::new(0),
        }
    }

    /// Sizes that blocks have: whole pages, and past eight of them eight sizes to each power of two, so that at most an eighth is
    /// wasted and lengths that differ a little share blocks.
    fn size_class(bytes: usize) -> usize {
        const PAGE: usize = 4096;
        let step = (bytes.next_power_of_two() / 16).max(PAGE);
        // At most `isize::MAX` bytes are asked for, so neither step overflows.
        bytes.next_multiple_of(step)
    }

    /// A block of at least `bytes` that no pending work uses.
    pub(crate) fn take(&self, bytes: usize) -> Result<Block> {
        let class = Self::size_class(bytes);
        if let Some(block) = self.reuse(class) {
            return Ok(block);
        }
        let block = Block::map(&self.driver, class)?;
        // Figures only: no other memory is published with them.
        self.blocks_mapped.fetch_add(1, Ordering::Relaxed);
        self.bytes_mapped.fetch_add(class, Ordering::Relaxed);
        Ok(block)
    }

    fn reuse(&self, class: usize) -> Option<Block> {
        // A panic while the lock was held can only have lost blocks, never shared one.
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = free.get_mut(&class)?;
        // Only what was *seen* complete: an error says nothing about the work (DESIGN.md §5.4).
        let done = blocks
            .iter()
            .position(|(fence, _)| fence.query().unwrap_or(false))?;
        blocks.remove(done).map(|(_, block)| block)
    }

    /// Takes back a block that may be reused once `fence` is over.
    pub(crate) fn give_back(&self, block: Block, fence: Fence) {
        let class = block.memory.len_bytes();
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.entry(class).or_default().push_back((fence, block));
    }

    pub(crate) fn stats(&self) -> PinnedStats {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        PinnedStats {
            blocks_mapped: self.blocks_mapped.load(Ordering::Relaxed),
            bytes_mapped: self.bytes_mapped.load(Ordering::Relaxed),
            blocks_free: free.values().map(VecDeque::len).sum(),
        }
    }

    /// Unmaps every block, waiting for the work that uses it; what cannot be waited for is leaked.
    pub(crate) fn close(&mut self) {
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (fence, block) in std::mem::take(free).into_values().flatten() {
            if fence.synchronize().is_err() {
                std::mem::forget(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PinnedPool;

    #[test]
    fn size_classes_waste_at_most_an_eighth_past_eight_pages() {
        for bytes in [
            1,
            4096,
            4097,
            32768,
            100_000,
            8_294_400,
            12_441_600,
            (1 << 30) + 1,
        ] {
            let class = PinnedPool::size_class(bytes);
            assert!(class >= bytes && class.is_multiple_of(4096), "{bytes} -> {class}");
            assert!(bytes < 32768 || class - bytes <= bytes / 8, "{bytes} -> {class}");
        }
        assert!(PinnedPool::size_class(isize::MAX as usize) >= isize::MAX as usize);
    }
}
