//! [`ManagedPool`]: a device's managed memory. It holds free blocks, each with the fence of its
//! last use.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{During, Result};
use crate::order::fence::Fence;
use crate::order::unless::Unless;
use cuda_rt_driver::{Advice, Driver, Location};

/// Managed memory. It keeps the driver that allocated it alive (obligations 6 and 14).
///
/// # Invariants
/// MANAGED-BLOCK-1. `address` is the start of an allocation of `bytes` bytes of `driver`, which
/// lives until this value is dropped, and which nothing else owns. Its provenance is exposed.
/// MANAGED-BLOCK-2. When the block is dropped, no work of a GPU and no thread of the host uses it.
pub(crate) struct ManagedBlock {
    address: usize,
    bytes: usize,
    driver: Arc<dyn Driver>,
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
        let address = driver.alloc_managed(bytes).during("Device::managed")?;
        Ok(Self {
            address: address.as_ptr().expose_provenance(),
            bytes,
            driver: Arc::clone(driver),
            advised: AtomicBool::new(false),
        })
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
        // SAFETY: MANAGED-BLOCK-1: the allocation is live. MANAGED-BLOCK-2: nothing uses it, and
        // nothing can after this drop. An error leaks the memory.
        let _ = unsafe { self.driver.free_managed(self.address()) };
    }
}

/// Free blocks of managed memory, by size, each with the fence of its last use.
#[derive(Debug)]
pub(crate) struct ManagedPool {
    driver: Arc<dyn Driver>,
    free: Mutex<BTreeMap<usize, VecDeque<(Fence, ManagedBlock)>>>,
}

impl ManagedPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            free: Mutex::default(),
        }
    }

    /// The size of a block for `bytes` bytes: a whole number of pages of 64 KiB, in which GPUs move
    /// managed memory. Past eight pages there are eight sizes to each power of two.
    fn size_class(bytes: usize) -> usize {
        const PAGE: usize = 64 << 10;
        let step = (bytes.next_power_of_two() / 16).max(PAGE);
        // A request has at most `isize::MAX` bytes, so neither step overflows.
        bytes.next_multiple_of(step)
    }

    /// A block of at least `bytes` bytes that nothing uses and about which nothing was advised.
    pub(crate) fn take(&self, bytes: usize) -> Result<ManagedBlock> {
        let class = Self::size_class(bytes);
        let Some(block) = self.reuse(class) else {
            return ManagedBlock::alloc(&self.driver, class);
        };
        // The block is idle, so on an error it may be freed.
        block.forget_advice()?;
        Ok(block)
    }

    fn reuse(&self, class: usize) -> Option<ManagedBlock> {
        // A panic under the lock can only have lost blocks: no block has two owners.
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = free.get_mut(&class)?;
        // Only what was *seen* complete: an error says nothing about the work (docs/soundness.md,
        // obligation 4).
        let done = blocks
            .iter()
            .position(|(fence, _)| fence.query().unwrap_or(false))?;
        blocks.remove(done).map(|(_, block)| block)
    }

    /// Takes back a block that may be reused once `fence` is over.
    pub(crate) fn give_back(&self, block: ManagedBlock, fence: Fence) {
        let class = block.bytes;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.entry(class).or_default().push_back((fence, block));
    }

    /// Frees the free blocks whose last use was seen complete, and returns their size in bytes.
    pub(crate) fn trim(&self) -> usize {
        let mut done = Vec::new();
        {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            for blocks in free.values_mut() {
                let mut index = 0;
                while index < blocks.len() {
                    // Only what was *seen* complete, as in `reuse`.
                    if !blocks[index].0.query().unwrap_or(false) {
                        index += 1;
                    } else if let Some((_, block)) = blocks.remove(index) {
                        done.push(block);
                    }
                }
            }
        }
        // Freeing may block, so it happens outside the lock.
        done.into_iter().map(|block| block.bytes).sum()
    }

    /// Frees every free block, after a wait for the work that uses it. A block whose wait fails is
    /// leaked.
    pub(crate) fn close(&mut self) {
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        let free = std::mem::take(free).into_values().flatten();
        // All blocks are wrapped first: if one wait unwinds, the blocks after it are leaked, not
        // freed.
        let blocks: Vec<_> = free
            .map(|(fence, block)| (fence, Unless::leaked(block)))
            .collect();
        for (fence, block) in blocks {
            if fence.synchronize().is_ok() {
                drop(block.take_back());
            }
        }
    }
}
