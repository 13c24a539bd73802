//! [`FreeBlocks`]: the free blocks of a pool, by size, each with the end of its last use.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::order::completion::Question;
use crate::order::fence::Fence;
use crate::order::unless::Leaked;
use cuda_rt_driver::process::Process;

/// The size of a block for `bytes` bytes: a whole number of pages of `page` bytes. Past eight pages
/// there are eight sizes to each power of two. So at most an eighth is wasted, and similar lengths
/// share blocks.
pub(super) fn size_class(bytes: usize, page: usize) -> usize {
    let step = (bytes.next_power_of_two() / 16).max(page);
    // A request has at most `isize::MAX` bytes, so neither step overflows.
    bytes.next_multiple_of(step)
}

/// Whether the last use of a block was *seen* complete: an error says nothing about the work
/// (docs/soundness.md, obligation 4).
fn is_over(last_use: &impl Question) -> bool {
    Question::ask(last_use).unwrap_or(false)
}

/// What the driver says of a block's last use.
enum Asked<B> {
    /// It is over, and the block is taken out.
    Over(B),
    /// It may be pending, and the block is in its place.
    Pending,
}

type BySize<B, E> = BTreeMap<usize, VecDeque<(E, B)>>;

/// Free blocks, by their sizes in bytes; `E` is the end of a block's last use. To drop a block
/// frees its memory, which may block. [`close`](Self::close) drops them all; without it they are
/// leaked.
///
/// A child of `fork` leaks every block, because most are its parent's: a signal would end the child
/// where it uses them.
#[derive(Debug)]
pub(super) struct FreeBlocks<B, E = Fence> {
    by_size: Mutex<BySize<B, E>>,
    process: Process,
}

impl<B, E> Default for FreeBlocks<B, E> {
    fn default() -> Self {
        Self {
            by_size: Mutex::default(),
            process: Process::current(),
        }
    }
}

impl<B, E: Question> FreeBlocks<B, E> {
    fn lock(&self) -> MutexGuard<'_, BySize<B, E>> {
        // A panic under the lock can only have lost blocks: no block has two owners.
        let mut free = self.by_size.lock().unwrap_or_else(PoisonError::into_inner);
        if self.process.has_forked() {
            std::mem::forget(std::mem::take(&mut *free));
        }
        free
    }

    /// Whether this process is a child of `fork`, and the blocks are its parent's.
    pub(super) fn is_of_parent(&self) -> bool {
        self.process.has_forked()
    }

    /// Takes a block of this size whose last use is over.
    pub(super) fn reuse(&self, bytes: usize) -> Option<B> {
        self.reuse_among(bytes, usize::MAX)
    }

    /// Like [`reuse`](Self::reuse), but asks for the oldest `among` blocks only.
    pub(super) fn reuse_among(&self, bytes: usize, among: usize) -> Option<B> {
        for at in 0..among {
            match self.take_if_over(bytes, at)? {
                Asked::Over(block) => return Some(block),
                Asked::Pending => {}
            }
        }
        None
    }

    /// Takes the block of this size at the place `at`, if its last use is over. `None` if there are
    /// fewer blocks.
    ///
    /// The driver is asked outside of the lock: the simulated device may run a kernel there, and
    /// the kernel's body may drop a buffer, which takes the lock. Other threads do not find the
    /// block meanwhile. If the driver unwinds, the block is leaked.
    fn take_if_over(&self, bytes: usize, at: usize) -> Option<Asked<B>> {
        let (last_use, block) = {
            let mut free = self.lock();
            let blocks = free.get_mut(&bytes)?;
            // The first block is mostly over, and costs less to take out.
            match at {
                0 => blocks.pop_front(),
                _ => blocks.remove(at),
            }?
        };
        let block = Leaked::new(block);
        let over = is_over(&last_use);
        let block = block.take_back();
        if over {
            return Some(Asked::Over(block));
        }
        let mut free = self.lock();
        let blocks = free.entry(bytes).or_default();
        blocks.insert(at.min(blocks.len()), (last_use, block));
        Some(Asked::Pending)
    }

    /// Takes back a block that may be reused once `last_use` is over.
    pub(super) fn give_back(&self, bytes: usize, block: B, last_use: E) {
        if self.process.has_forked() {
            std::mem::forget(block);
            return;
        }
        let mut free = self.lock();
        free.entry(bytes).or_default().push_back((last_use, block));
    }

    /// Drops blocks whose last use is over, the largest first, until they have `most_bytes` bytes
    /// together. Returns their bytes.
    pub(super) fn trim(&self, most_bytes: usize) -> usize {
        let (done, done_bytes) = self.take_over(most_bytes);
        // Outside the lock, because it may block.
        drop(done);
        done_bytes
    }

    /// Takes blocks out whose last use is over, the largest first, until they have `most_bytes`
    /// bytes together. Also returns their bytes.
    pub(super) fn take_over(&self, most_bytes: usize) -> (Vec<B>, usize) {
        let (mut done, mut done_bytes) = (Vec::new(), 0);
        let sizes: Vec<usize> = self.lock().keys().rev().copied().collect();
        for bytes in sizes {
            let mut at = 0;
            while done_bytes < most_bytes
                && let Some(asked) = self.take_if_over(bytes, at)
            {
                match asked {
                    Asked::Pending => at += 1,
                    Asked::Over(block) => {
                        done_bytes += bytes;
                        done.push(block);
                    }
                }
            }
        }
        (done, done_bytes)
    }

    /// The number of blocks, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let free = self.lock();
        let sizes = || free.iter().map(|(bytes, blocks)| (bytes, blocks.len()));
        (
            sizes().map(|(_, count)| count).sum(),
            sizes().map(|(bytes, count)| bytes * count).sum(),
        )
    }

    /// Takes every block out. The blocks of a parent process are leaked.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (E, B)> + use<B, E> {
        let free = self.by_size.get_mut().unwrap_or_else(PoisonError::into_inner);
        let free = std::mem::take(free);
        let free = match self.process.has_forked() {
            true => {
                std::mem::forget(free);
                BySize::new()
            }
            false => free,
        };
        free.into_values().flatten()
    }
}

impl<B> FreeBlocks<B> {
    /// Drops every block, after a wait for the work that uses it. Leaks a block whose wait fails,
    /// and the blocks of a parent process.
    pub(super) fn close(&mut self) {
        if self.process.has_forked() {
            return;
        }
        let free = self.by_size.get_mut().unwrap_or_else(PoisonError::into_inner);
        let free = std::mem::take(free).into_values().flatten();
        // All blocks are wrapped first: if one wait unwinds, the blocks after it are leaked, not
        // freed.
        let blocks: Vec<_> = free.map(|(fence, block)| (fence, Leaked::new(block))).collect();
        for (fence, block) in blocks {
            if fence.synchronize().is_ok() {
                drop(block.take_back());
            }
        }
    }
}

impl<B, E> Drop for FreeBlocks<B, E> {
    /// Leaks the blocks that [`close`](Self::close) did not take: work may still use them.
    /// Counterexample: the call that unregisters a block of the pinned pool unwinds at the device's
    /// end, which then does not come to close the managed pool.
    fn drop(&mut self) {
        let free = self.by_size.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(free));
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

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
            for page in [4096, 64 << 10] {
                let class = size_class(bytes, page);
                assert!(class >= bytes && class.is_multiple_of(page), "{bytes} -> {class}");
                let is_small = bytes < 8 * page;
                assert!(is_small || class - bytes <= bytes / 8, "{bytes} -> {class}");
            }
        }
        assert!(size_class(isize::MAX as usize, 4096) >= isize::MAX as usize);
    }
}
