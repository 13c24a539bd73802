//! [`PinnedPool`]: a device's page-locked memory. It holds free blocks, each with the fence of its
//! last use, and keeps to a limit.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{During, PinnedError, Result};
use crate::order::fence::Fence;
use crate::order::unless::Unless;
use cuda_rt_driver::{Driver, HostMemory};

/// Page-locked host memory. It keeps the driver that locked it alive (obligations 6 and 14).
///
/// # Invariants
/// PINNED-BLOCK-1. `memory` is registered with `driver` until this value is dropped.
/// PINNED-BLOCK-2. When the block is dropped, no work of a GPU uses it.
pub(crate) struct Block {
    memory: ManuallyDrop<HostMemory>,
    driver: Arc<dyn Driver>,
    /// The account of the pool that mapped the block, also if another device's pool gets the block.
    account: Arc<Account>,
}

/// The amount of memory that a pool has mapped, and its limit. A block counts from just before it
/// is mapped until it is unmapped, also while it is leaked or belongs to another device.
///
/// The orderings are `Relaxed` because these are figures only: no other memory is published with
/// them.
#[derive(Debug)]
struct Account {
    blocks_mapped: AtomicUsize,
    bytes_mapped: AtomicUsize,
    blocks_held: AtomicUsize,
    bytes_held: AtomicUsize,
    bytes_held_peak: AtomicUsize,
    limit_bytes: AtomicUsize,
}

impl Account {
    /// Makes room for `bytes` under the limit.
    fn reserve(&self, bytes: usize) -> bool {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        let within = |held: usize| held.checked_add(bytes).filter(|held| *held <= limit);
        let reserved = self
            .bytes_held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        if let Ok(before) = reserved {
            self.blocks_held.fetch_add(1, Ordering::Relaxed);
            self.bytes_held_peak.fetch_max(before + bytes, Ordering::Relaxed);
        }
        reserved.is_ok()
    }

    fn release(&self, bytes: usize) {
        self.blocks_held.fetch_sub(1, Ordering::Relaxed);
        self.bytes_held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.fmt(f)
    }
}

impl Block {
    /// Maps `bytes` for which `account` has made room, for the call `during`.
    fn map(
        driver: &Arc<dyn Driver>,
        account: &Arc<Account>,
        bytes: usize,
        during: &'static str,
    ) -> Result<Self> {
        let memory = HostMemory::map(bytes).map_err(|source| PinnedError::HostMemory {
            during,
            bytes,
            source,
        })?;
        // A call that unwinds or fails may have registered the memory, so the memory then stays
        // mapped. Its pages were never touched, so the leak takes addresses only.
        let memory = Unless::leaked(memory);
        // SAFETY: the memory was mapped just now, so it is not registered. PINNED-BLOCK-1 keeps it
        // mapped.
        unsafe { driver.register_host(&memory) }.during(during)?;
        let memory = memory.take_back();
        memory.address().as_ptr().expose_provenance();
        Ok(Self {
            memory: ManuallyDrop::new(memory),
            driver: Arc::clone(driver),
            account: Arc::clone(account),
        })
    }

    pub(crate) fn address(&self) -> NonNull<c_void> {
        self.memory.address()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = self.memory.len_bytes();
        // SAFETY: the memory is registered with this driver (PINNED-BLOCK-1), and no GPU uses it
        // any more (PINNED-BLOCK-2).
        if unsafe { self.driver.unregister_host(&self.memory) }.is_ok() {
            // SAFETY: nothing uses the field after this drop. (Memory that is still registered
            // stays mapped.)
            unsafe { ManuallyDrop::drop(&mut self.memory) }
            self.account.release(bytes);
        }
    }
}

/// Figures of a device's pinned pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedStats {
    /// Blocks mapped and page-locked since the device was opened. A buffer made from a reused block
    /// does not count again.
    pub blocks_mapped: usize,
    /// Their bytes.
    pub bytes_mapped: usize,
    /// Blocks in the pool now, those with pending work included.
    pub blocks_free: usize,
    /// Their bytes.
    pub bytes_free: usize,
    /// Blocks that are page-locked now, in the pool or in use.
    pub blocks_held: usize,
    /// Their bytes.
    pub bytes_held: usize,
    /// The most bytes that were page-locked at once.
    pub bytes_held_peak: usize,
    /// The most bytes that may be page-locked at once; see
    /// [`Device::set_pinned_limit`](crate::Device::set_pinned_limit).
    pub limit_bytes: Option<usize>,
}

/// Page-locked blocks for reuse, each with the fence of its last use.
#[derive(Debug)]
pub(crate) struct PinnedPool {
    driver: Arc<dyn Driver>,
    free: Mutex<BTreeMap<usize, VecDeque<(Fence, Block)>>>,
    account: Arc<Account>,
}

impl PinnedPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            free: Mutex::default(),
            account: Arc::new(Account {
                blocks_mapped: AtomicUsize::new(0),
                bytes_mapped: AtomicUsize::new(0),
                blocks_held: AtomicUsize::new(0),
                bytes_held: AtomicUsize::new(0),
                bytes_held_peak: AtomicUsize::new(0),
                limit_bytes: AtomicUsize::new(usize::MAX),
            }),
        }
    }

    /// The size of a block for `bytes` bytes: a whole number of pages. Past eight pages there are
    /// eight sizes to each power of two. So at most an eighth is wasted, and similar lengths share
    /// blocks.
    fn size_class(bytes: usize) -> usize {
        const PAGE: usize = 4096;
        let step = (bytes.next_power_of_two() / 16).max(PAGE);
        // A request has at most `isize::MAX` bytes, so neither step overflows.
        bytes.next_multiple_of(step)
    }

    /// A block of at least `bytes` that no pending work uses, for the call `during`.
    pub(crate) fn take(&self, bytes: usize, during: &'static str) -> Result<Block> {
        let class = Self::size_class(bytes);
        if let Some(block) = self.reuse(class) {
            return Ok(block);
        }
        if !self.account.reserve(class) {
            // Free blocks of other sizes may make room.
            self.make_room(class);
            if !self.account.reserve(class) {
                return Err(PinnedError::Limit {
                    during,
                    bytes: class,
                    held_bytes: self.account.bytes_held.load(Ordering::Relaxed),
                    limit_bytes: self.account.limit_bytes.load(Ordering::Relaxed),
                }
                .into());
            }
        }
        let block = Block::map(&self.driver, &self.account, class, during)
            .inspect_err(|_| self.account.release(class))?;
        self.account.blocks_mapped.fetch_add(1, Ordering::Relaxed);
        self.account.bytes_mapped.fetch_add(class, Ordering::Relaxed);
        Ok(block)
    }

    fn reuse(&self, class: usize) -> Option<Block> {
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
    pub(crate) fn give_back(&self, block: Block, fence: Fence) {
        let class = block.memory.len_bytes();
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.entry(class).or_default().push_back((fence, block));
    }

    /// The most bytes that may be page-locked at once; `None` for no limit.
    pub(crate) fn set_limit(&self, bytes: Option<usize>) {
        self.account
            .limit_bytes
            .store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// Unmaps free blocks until `bytes` more fit under the limit.
    fn make_room(&self, bytes: usize) {
        let limit = self.account.limit_bytes.load(Ordering::Relaxed);
        if let Some(keep_bytes) = limit.checked_sub(bytes) {
            self.trim(keep_bytes);
        }
    }

    /// Unmaps free blocks whose last use was seen complete, the largest first, until no more than
    /// `keep_bytes` are page-locked. Returns the bytes unmapped.
    pub(crate) fn trim(&self, keep_bytes: usize) -> usize {
        let mut done = Vec::new();
        {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let mut held = self.account.bytes_held.load(Ordering::Relaxed);
            for blocks in free.values_mut().rev() {
                let mut index = 0;
                while held > keep_bytes && index < blocks.len() {
                    // Only what was *seen* complete: an error says nothing about the work
                    // (docs/soundness.md, obligation 4).
                    if !blocks[index].0.query().unwrap_or(false) {
                        index += 1;
                    } else if let Some((_, block)) = blocks.remove(index) {
                        held = held.saturating_sub(block.memory.len_bytes());
                        done.push(block);
                    }
                }
            }
        }
        // Unmapping may block, so it happens outside the lock.
        done.into_iter().map(|block| block.memory.len_bytes()).sum()
    }

    pub(crate) fn stats(&self) -> PinnedStats {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = || free.values().flatten().map(|(_, block)| block);
        let figure = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let account = &self.account;
        PinnedStats {
            blocks_mapped: figure(&account.blocks_mapped),
            bytes_mapped: figure(&account.bytes_mapped),
            blocks_free: blocks().count(),
            bytes_free: blocks().map(|block| block.memory.len_bytes()).sum(),
            blocks_held: figure(&account.blocks_held),
            bytes_held: figure(&account.bytes_held),
            bytes_held_peak: figure(&account.bytes_held_peak),
            limit_bytes: Some(figure(&account.limit_bytes)).filter(|limit| *limit != usize::MAX),
        }
    }

    /// Unmaps every free block, after a wait for the work that uses it. A block whose wait fails is
    /// leaked.
    pub(crate) fn close(&mut self) {
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        let free = std::mem::take(free).into_values().flatten();
        // All blocks are wrapped first: if one wait unwinds, the blocks after it are leaked, not
        // unmapped.
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
