//! [`PinnedPool`]: a device's page-locked memory, in blocks that are reused, and within a limit.

use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::free_blocks::{FreeBlocks, size_class};
use crate::error::{During, PinnedError, Result};
use crate::observability;
use crate::order::fence::Fence;
use crate::order::unless::Leaked;
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
    ) -> Result<Box<Self>> {
        let memory = HostMemory::map(bytes).map_err(|source| PinnedError::HostMemory {
            during,
            bytes,
            source,
        })?;
        // A call that unwinds or fails may have registered the memory, so the memory then stays
        // mapped. Its pages were never touched, so the leak takes addresses only.
        let memory = Leaked::new(memory);
        // SAFETY: the memory was mapped just now, so it is not registered. PINNED-BLOCK-1 keeps it
        // mapped.
        unsafe { driver.register_host(&memory) }.during(during)?;
        let memory = memory.take_back();
        memory.address().as_ptr().expose_provenance();
        Ok(Box::new(Self {
            memory: ManuallyDrop::new(memory),
            driver: Arc::clone(driver),
            account: Arc::clone(account),
        }))
    }

    #[inline]
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

/// The size of the pages that are page-locked.
const PAGE: usize = 4096;

/// Page-locked memory of a device, for reuse.
#[derive(Debug)]
pub(crate) struct PinnedPool {
    driver: Arc<dyn Driver>,
    free: FreeBlocks<Box<Block>>,
    account: Arc<Account>,
}

impl PinnedPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            free: FreeBlocks::default(),
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

    /// A block of at least `bytes` that no pending work uses, for the call `during`.
    pub(crate) fn take(&self, bytes: usize, during: &'static str) -> Result<Box<Block>> {
        let class = size_class(bytes, PAGE);
        if let Some(block) = self.free.reuse(class) {
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
        let held = self.account.bytes_held.load(Ordering::Relaxed);
        observability::pool_grown(&*self.driver, "pinned", class, held);
        Ok(block)
    }

    /// Whether this process is a child of `fork`, and the pool's memory is its parent's.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.free.is_of_parent()
    }

    /// Takes back a block that may be reused once `fence` is over.
    pub(crate) fn give_back(&self, block: Box<Block>, fence: Fence) {
        self.free.give_back(block.memory.len_bytes(), block, fence);
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
        let held = self.account.bytes_held.load(Ordering::Relaxed);
        let given_back = self.free.trim(held.saturating_sub(keep_bytes));
        observability::pool_trimmed(&*self.driver, "pinned", given_back);
        given_back
    }

    pub(crate) fn stats(&self) -> PinnedStats {
        let (blocks_free, bytes_free) = self.free.size();
        let figure = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let account = &self.account;
        PinnedStats {
            blocks_mapped: figure(&account.blocks_mapped),
            bytes_mapped: figure(&account.bytes_mapped),
            blocks_free,
            bytes_free,
            blocks_held: figure(&account.blocks_held),
            bytes_held: figure(&account.bytes_held),
            bytes_held_peak: figure(&account.bytes_held_peak),
            limit_bytes: Some(figure(&account.limit_bytes)).filter(|limit| *limit != usize::MAX),
        }
    }

    /// Unmaps every free block, after a wait for the work that uses it. A block whose wait fails is
    /// leaked.
    pub(crate) fn close(&mut self) {
        self.free.close();
    }
}
