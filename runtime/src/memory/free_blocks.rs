//! [`FreeBlocks`]: the free blocks of a pool of host memory, by size, each with the fence of its
//! last use.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::order::fence::Fence;
use crate::order::unless::Unless;
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
fn is_over(last_use: &Fence) -> bool {
    last_use.query().unwrap_or(false)
}

/// The place of the first block whose last use is over: mostly the first of all.
fn first_over<B>(blocks: &VecDeque<(Fence, B)>) -> Option<usize> {
    if is_over(&blocks.front()?.0) {
        return Some(0);
    }
    let mut others = blocks.iter().skip(1);
    others
        .position(|(last_use, _)| is_over(last_use))
        .map(|at| at + 1)
}

type BySize<B> = BTreeMap<usize, VecDeque<(Fence, B)>>;

/// Free blocks, by their sizes in bytes. To drop a block frees its memory, which may block.
/// [`close`](Self::close) drops them all; without it they are leaked.
///
/// A child of `fork` leaks every block, because most are its parent's: a signal would end the child
/// where it uses them.
#[derive(Debug)]
pub(super) struct FreeBlocks<B> {
    by_size: Mutex<BySize<B>>,
    process: Process,
}

impl<B> Default for FreeBlocks<B> {
    fn default() -> Self {
        Self {
            by_size: Mutex::default(),
            process: Process::current(),
        }
    }
}

impl<B> FreeBlocks<B> {
    fn lock(&self) -> MutexGuard<'_, BySize<B>> {
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
        let mut free = self.lock();
        let blocks = free.get_mut(&bytes)?;
        let done = first_over(blocks)?;
        let taken = match done {
            0 => blocks.pop_front(),
            _ => blocks.remove(done),
        };
        taken.map(|(_, block)| block)
    }

    /// Takes back a block that may be reused once `fence` is over.
    pub(super) fn give_back(&self, bytes: usize, block: B, fence: Fence) {
        if self.process.has_forked() {
            std::mem::forget(block);
            return;
        }
        let mut free = self.lock();
        free.entry(bytes).or_default().push_back((fence, block));
    }

    /// Drops blocks whose last use is over, the largest first, until they have `most_bytes` bytes
    /// together. Returns their bytes.
    pub(super) fn trim(&self, most_bytes: usize) -> usize {
        let (mut done, mut done_bytes) = (Vec::new(), 0);
        for (bytes, blocks) in self.lock().iter_mut().rev() {
            let mut index = 0;
            while done_bytes < most_bytes && index < blocks.len() {
                if !is_over(&blocks[index].0) {
                    index += 1;
                } else if let Some((_, block)) = blocks.remove(index) {
                    done_bytes += bytes;
                    done.push(block);
                }
            }
        }
        // Outside the lock, because it may block.
        drop(done);
        done_bytes
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

impl<B> Drop for FreeBlocks<B> {
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
