//! Blocks with several owners, each of a part.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::foreign::Foreign;
use crate::device::core::DeviceCore;
use crate::memory::pinned_pool::Block;
use crate::order::last_uses::LastUses;
use crate::order::unless::Unless;
use cuda_rt_driver::DeviceAddress;

/// An allocation of device memory that was split, held by each of its parts.
///
/// ```text
///   split_off      release, acquire        drop: records an event    the last drop: waits for both
///   ┌─────────┐    on Download ──────────▶ on Download ──────────┐   on the reaper stream, and frees
///   │ 0..512  │                                                  ├─▶
///   │ 512..   │    stays on Compute ─────▶ on Compute ───────────┘
///   └─────────┘
/// ```
///
/// # Invariants
/// SPLIT-BLOCK-1. `address` is that of an allocation of `bytes` bytes, more than 0 unless it is
/// foreign. Each part that was not dropped
///     holds this, and no two parts overlap.
/// SPLIT-BLOCK-2. Every use of each part that was dropped is ordered before one of `ended`, or is
/// over.
#[derive(Debug)]
pub(super) struct SplitBlock {
    address: DeviceAddress,
    bytes: usize,
    /// Who gets it back, if it is not of the device's pool.
    foreign: Option<Foreign>,
    ended: Mutex<LastUses>,
}

impl SplitBlock {
    pub(super) fn new(address: DeviceAddress, bytes: usize, foreign: Option<Foreign>) -> Self {
        Self {
            address,
            bytes,
            foreign,
            ended: Mutex::default(),
        }
    }

    /// Whether a part of these bytes is all there is: no other part, dropped or not. Empty parts
    /// apart, then, nothing was dropped, and `ended` holds nothing. Never of foreign memory, which
    /// stays one whoever has it.
    pub(super) fn is_whole(self: &mut Arc<Self>, address: DeviceAddress, bytes: usize) -> bool {
        // Unique, so no other part is left, and none can be made.
        Arc::get_mut(self)
            .is_some_and(|block| block.foreign.is_none() && block.address == address && block.bytes == bytes)
    }

    /// A part is dropped; `end` says where its uses end. The last one frees the block
    /// (`cuMemFreeAsync`), or gives it back to its owner, after the uses of all; what cannot be
    /// ordered is leaked. Never blocks the host.
    pub(super) fn end(self: Arc<Self>, core: &DeviceCore, end: impl FnOnce(&mut LastUses)) {
        // Whole after any panic: each step of `LastUses` is one assignment.
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note(end);
        let Some(block) = Arc::into_inner(self) else {
            return;
        };
        let ended = block.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Ok(driver) = core.ordered() else { return };
        if let Some(foreign) = block.foreign {
            return foreign.give_back_behind(ended.into_fence());
        }
        let at = match ended.only_stream() {
            Some(at) => at,
            None => {
                let reaper = core.reaper();
                // A failed wait is not a finished wait (docs/soundness.md, obligation 4).
                if ended.into_fence().wait_on(reaper).is_err() {
                    return;
                }
                reaper
            }
        };
        // SAFETY: SPLIT-BLOCK-1 and SPLIT-BLOCK-2: no part is left, and every use is ordered before
        // this place in `at`, which the core keeps.
        let _ = unsafe { driver.free(block.address, at.raw) };
    }
}

/// A block of pinned memory that was split, held by each of its parts.
///
/// # Invariants
/// SPLIT-PINNED-1. Each part that was not dropped holds this, and no two parts overlap.
/// SPLIT-PINNED-2. Every use of each part that was dropped is ordered before one of `ended`, or is
/// over.
#[derive(Debug)]
pub(super) struct SplitPinned {
    block: PinnedBlock,
    ended: Mutex<LastUses>,
}

/// A block of the pool, or of someone else, by its address, whose provenance is exposed.
#[derive(Debug)]
pub(super) enum PinnedBlock {
    Pool(Block),
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
                // Never null: it was made of a `NonNull`.
                NonNull::new(std::ptr::with_exposed_provenance_mut(*address)).unwrap_or(NonNull::dangling())
            }
        }
    }

    /// A part is dropped; `end` says where its uses end. The last one gives the block to the pool
    /// of `core`, which reuses it once the uses of all were seen complete, or back to its owner
    /// then.
    pub(super) fn end(self: Arc<Self>, core: &DeviceCore, end: impl FnOnce(&mut LastUses)) {
        // Its own drop would unmap a block of the pool.
        let split = Unless::leaked(self);
        split
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note(end);
        if let Some(split) = Arc::into_inner(split.take_back()) {
            let block = Unless::leaked(split.block);
            let ended = split.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
            let fence = ended.into_fence();
            match block.take_back() {
                PinnedBlock::Pool(block) => core.pinned().give_back(block, fence),
                PinnedBlock::Foreign(_, foreign) => foreign.give_back_behind(fence),
            }
        }
    }
}
