//! Page-locked memory of a device: its blocks, each with the fence of its last use, and the limit.

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

/// Page-locked host memory, with the driver that locked it kept alive (obligations 6 and 14).
///
/// # Invariants
/// PINNED-BLOCK-1. `memory` is registered with `driver` until this value is dropped.
/// PINNED-BLOCK-2. When it is dropped no work of a GPU uses it.
pub(crate) struct Block {
    memory: ManuallyDrop<HostMemory>,
    driver: Arc<dyn Driver>,
    /// That of the pool which mapped it, wherever it goes.
    account: Arc<Account>,
}

/// How much a pool has mapped, and how much it may. A block counts from before it is mapped until
/// it is unmapped, also while it is leaked or with another device.
///
/// Figures only: no other memory is published with them.
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
    /// Maps `bytes` for which `account` has made room.
    fn map(driver: &Arc<dyn Driver>, account: &Arc<Account>, bytes: usize) -> Result<Self> {
        let memory = HostMemory::map(bytes).map_err(|source| PinnedError::HostMemory { bytes, source })?;
        // A call that unwinds or fails may have registered it: it stays mapped. Nothing has touched
        // its pages.
        let memory = Unless::leaked(memory);
        // SAFETY: freshly mapped, so not registered; PINNED-BLOCK-1 keeps it mapped.
        unsafe { driver.register_host(&memory) }.during("Device::pinned")?;
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
        // SAFETY: PINNED-BLOCK-1 and PINNED-BLOCK-2.
        if unsafe { self.driver.unregister_host(&self.memory) }.is_ok() {
            // SAFETY: not used after this. Memory that is still registered stays mapped instead.
            unsafe { ManuallyDrop::drop(&mut self.memory) }
            self.account.release(bytes);
        }
    }
}

/// What the pinned pool of a device holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedStats {
    /// Blocks mapped and page-locked since the device was opened; buffers made from reused blocks
    /// add none.
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
    /// The most bytes that may be; see
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

    /// Sizes that blocks have: whole pages, and past eight of them eight sizes to each power of
    /// two, so that at most an eighth is wasted and lengths that differ a little share blocks.
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
        if !self.account.reserve(class) {
            // Other sizes may be lying about.
            self.make_room(class);
            if !self.account.reserve(class) {
                return Err(PinnedError::Limit {
                    bytes: class,
                    held_bytes: self.account.bytes_held.load(Ordering::Relaxed),
                    limit_bytes: self.account.limit_bytes.load(Ordering::Relaxed),
                }
                .into());
            }
        }
        let block =
            Block::map(&self.driver, &self.account, class).inspect_err(|_| self.account.release(class))?;
        self.account.blocks_mapped.fetch_add(1, Ordering::Relaxed);
        self.account.bytes_mapped.fetch_add(class, Ordering::Relaxed);
        Ok(block)
    }

    fn reuse(&self, class: usize) -> Option<Block> {
        // A panic while the lock was held can only have lost blocks, never shared one.
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
        // Unmapping may block: not under the lock.
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

    /// Unmaps every block, waiting for the work that uses it; what cannot be waited for is leaked.
    pub(crate) fn close(&mut self) {
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        let free = std::mem::take(free).into_values().flatten();
        // All of them: where one wait unwinds, no block behind it is unmapped.
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
