//! Blocks of memory with several owners, each of which owns a part.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::foreign::Foreign;
use crate::device::core::DeviceCore;
use crate::memory::DeviceBlock;
use crate::memory::pinned_pool::Block;
use crate::order::last_uses::LastUses;
use crate::order::unless::Leaked;
use cuda_rt_driver::DeviceAddress;

/// An allocation of device memory that was split. Each part holds it.
///
/// ```text
///   split_off     release, acquire       drop: records an event   the last drop: waits for both
///   ┌─────────┐   on Download ─────────▶ on Download ─────────┐   on the stream for frees, frees
///   │ 0..512  │                                               ├─▶
///   │ 512..   │   stays on Compute ────▶ on Compute ──────────┘
///   └─────────┘
/// ```
///
/// # Invariants
/// SPLIT-BLOCK-1. `block` is an allocation for `bytes` bytes, as `DevicePool::free` takes it. Only
/// a foreign allocation may have 0 bytes. Each part that was not dropped holds this block, and no
/// two parts overlap.
/// SPLIT-BLOCK-2. Every use of each dropped part is over, or ordered before an end in `ended`.
#[derive(Debug)]
pub(super) struct SplitBlock {
    block: DeviceBlock,
    /// Of the elements.
    bytes: usize,
    /// The owner that gets the memory back, if the memory is foreign.
    foreign: Option<Foreign>,
    ended: Mutex<LastUses>,
}

impl SplitBlock {
    pub(super) fn new(block: DeviceBlock, bytes: usize, foreign: Option<Foreign>) -> Self {
        Self {
            block,
            bytes,
            foreign,
            ended: Mutex::default(),
        }
    }

    /// Whether the block is memory of other code.
    pub(super) fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// Whether this block of the pool ends where the part ends.
    pub(super) fn ends_with(&self, address: DeviceAddress, bytes: usize) -> bool {
        self.foreign.is_none() && self.block.address.0 + self.bytes as u64 == address.0 + bytes as u64
    }

    /// Whether the part at `address`, of `bytes` bytes, is the whole block: no other part holds any
    /// of its bytes, and no other part with bytes was dropped, so `ended` is empty. Always false
    /// for foreign memory, which must keep its block.
    pub(super) fn is_whole(self: &mut Arc<Self>, address: DeviceAddress, bytes: usize) -> bool {
        // The reference is unique, so no other part is left, and nothing can make one.
        Arc::get_mut(self).is_some_and(|split| {
            split.foreign.is_none() && split.block.address == address && split.bytes == bytes
        })
    }

    /// Ends a part; `end` notes where the uses of the part end. The last part gives the block back
    /// to the device's pool, or gives it back to its owner, after the uses of all parts. If that
    /// order cannot be made, the block is leaked. Never blocks the host.
    pub(super) fn end(self: Arc<Self>, core: &DeviceCore, end: impl FnOnce(&mut LastUses)) {
        // The value is consistent after any panic: each step of `LastUses` is one assignment.
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note(end);
        let Some(split) = Arc::into_inner(self) else {
            return;
        };
        let ended = split.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        if core.check().is_err() {
            return;
        }
        if let Some(foreign) = split.foreign {
            return foreign.give_back_behind(ended.into_fence());
        }
        let at = match ended.only_stream() {
            Some(at) => at,
            None => {
                let for_frees = core.stream_for_frees();
                // A failed wait is not a finished wait (docs/soundness.md, obligation 4).
                if ended.into_fence().wait_on(for_frees).is_err() {
                    return;
                }
                for_frees
            }
        };
        // SAFETY: SPLIT-BLOCK-1 and SPLIT-BLOCK-2: no part is left, and every use is ordered before
        // the present end of `at`, a stream of the core.
        unsafe { core.memory().free(split.block, at) };
    }
}

/// A block of pinned memory that was split. Each part holds it.
///
/// # Invariants
/// SPLIT-PINNED-1. Each part that was not dropped holds this block, and no two parts overlap.
/// SPLIT-PINNED-2. Every use of each dropped part is over, or ordered before an end in `ended`.
#[derive(Debug)]
pub(super) struct SplitPinned {
    block: PinnedBlock,
    ended: Mutex<LastUses>,
}

/// A block of the pool, or foreign memory, given by an address whose provenance is exposed.
#[derive(Debug)]
pub(super) enum PinnedBlock {
    Pool(Box<Block>),
    Foreign(usize, Foreign),
}

impl SplitPinned {
    pub(super) fn new(block: PinnedBlock) -> Self {
        Self {
            block,
            ended: Mutex::default(),
        }
    }

    pub(super) fn address(&self) -> NonNull<c_void> {
        match &self.block {
            PinnedBlock::Pool(block) => block.address(),
            PinnedBlock::Foreign(address, _) => {
                // Never null: the address came from a `NonNull`.
                NonNull::new(std::ptr::with_exposed_provenance_mut(*address)).unwrap_or(NonNull::dangling())
            }
        }
    }

    /// Ends a part; `end` notes where the uses of the part end. The last part gives the block to
    /// the pool of `core`, or back to its foreign owner. Either gets to use it only after the uses
    /// of all parts were seen complete.
    pub(super) fn end(self: Arc<Self>, core: &DeviceCore, end: impl FnOnce(&mut LastUses)) {
        // A plain drop, by unwinding, would unmap a block of the pool.
        let split = Leaked::new(self);
        split
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note(end);
        if let Some(split) = Arc::into_inner(split.take_back()) {
            let block = Leaked::new(split.block);
            let ended = split.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
            let fence = ended.into_fence();
            match block.take_back() {
                PinnedBlock::Pool(block) => core.pinned().give_back(block, fence),
                PinnedBlock::Foreign(_, foreign) => foreign.give_back_behind(fence),
            }
        }
    }
}
