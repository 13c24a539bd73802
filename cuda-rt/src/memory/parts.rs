//! Blocks with several owners, each of a part.

use std::sync::{Arc, Mutex, PoisonError};

use super::pool::Block;
use crate::core::DeviceCore;
use crate::driver::DeviceAddress;
use crate::ended::Ended;

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
/// D1. `address` is that of an allocation of `bytes` bytes, more than 0. Each part that was not dropped holds this, and no two
///     parts overlap.
/// D2. Every use of each part that was dropped is ordered before one of `ended`, or is over.
#[derive(Debug)]
pub(super) struct SplitBlock {
    address: DeviceAddress,
    bytes: usize,
    ended: Mutex<Ended>,
}

impl SplitBlock {
    pub(super) fn new(address: DeviceAddress, bytes: usize) -> Self {
        Self {
            address,
            bytes,
            ended: Mutex::default(),
        }
    }

    /// Whether a part of these bytes is all there is: no other part, dropped or not. Empty parts apart, then, nothing was
    /// dropped, and `ended` holds nothing.
    pub(super) fn is_whole(self: &mut Arc<Self>, address: DeviceAddress, bytes: usize) -> bool {
        // Unique, so no other part is left, and none can be made.
        Arc::get_mut(self).is_some_and(|block| block.address == address && block.bytes == bytes)
    }

    /// A part is dropped; `end` says where its uses end. The last one frees the block (`cuMemFreeAsync`), after the uses of
    /// all; what cannot be ordered is leaked. Never blocks the host.
    pub(super) fn end(self: Arc<Self>, core: &DeviceCore, end: impl FnOnce(&mut Ended)) {
        // Whole after any panic: each step of `Ended` is one assignment.
        end(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(block) = Arc::into_inner(self) else {
            return;
        };
        let ended = block.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Ok(driver) = core.ordered() else { return };
        let at = match ended.only_stream() {
            Some(at) => at,
            None => {
                let reaper = core.reaper();
                // A failed wait is not a finished wait (DESIGN.md §5.4).
                if ended.into_fence().wait_on(reaper).is_err() {
                    return;
                }
                reaper
            }
        };
        // SAFETY: D1 and D2: no part is left, and every use is ordered before this place in `at`, which the core keeps.
        let _ = unsafe { driver.free(block.address, at.raw) };
    }
}

/// A block of pinned memory that was split, held by each of its parts.
///
/// # Invariants
/// D3. Each part that was not dropped holds this, and no two parts overlap.
/// D4. Every use of each part that was dropped is ordered before one of `ended`, or is over.
#[derive(Debug)]
pub(super) struct SplitPinned {
    block: Block,
    ended: Mutex<Ended>,
}

impl SplitPinned {
    pub(super) fn new(block: Block) -> Self {
        Self {
            block,
            ended: Mutex::default(),
        }
    }

    pub(super) fn block(&self) -> &Block {
        &self.block
    }

    /// A part is dropped; `end` says where its uses end. The last one gives the block to the pool of `core`, which reuses it once
    /// the uses of all were seen complete.
    pub(super) fn end(self: Arc<Self>, core: &DeviceCore, end: impl FnOnce(&mut Ended)) {
        end(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(split) = Arc::into_inner(self) {
            let ended = split.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
            core.pinned().give_back(split.block, ended.into_fence());
        }
    }
}
