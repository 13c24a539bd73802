//! The host's writes of write-combined memory.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use crate::device::core::DeviceCore;
use crate::error::{Error, Result};
use crate::memory::Element;
use crate::memory::mapped_host::{self, HostUse};
use cuda_rt_driver::{AccessKind, CallSite};

/// Elements that the host may write now.
///
/// # Invariants
/// HOST-WRITE-1. `start` is the address of `len` elements of live write-combined memory of `core`'s
/// driver, aligned for `T`. While the value exists, no work uses them, and no other thread does.
/// If they have 0 bytes, any aligned address serves.
pub(super) struct HostWrite<'a, T> {
    core: &'a DeviceCore,
    start: NonNull<T>,
    len: usize,
    passed: CallSite,
}

impl<'a, T: Element> HostWrite<'a, T> {
    /// # Safety
    /// HOST-WRITE-1.
    pub(super) unsafe fn new(core: &'a DeviceCore, start: NonNull<T>, len: usize, passed: CallSite) -> Self {
        Self {
            core,
            start,
            len,
            passed,
        }
    }

    /// Writes a copy of `source` to `range`.
    pub(super) fn copy_from_slice(self, range: Range<usize>, source: &[T]) -> Result<()> {
        if range.len() != source.len() {
            return Err(Error::LengthMismatch {
                during: self.passed.during,
                source_len: source.len(),
                destination_len: range.len(),
            });
        }
        self.write(range, |first| {
            // SAFETY: HOST-WRITE-1: the range has as many elements as `source`, and nothing else
            // uses them. They do not overlap: no safe code borrows elements of this memory.
            unsafe { first.copy_from_nonoverlapping(NonNull::from(source).cast(), source.len()) };
        })
    }

    /// Writes `value` of each index to the elements of `range`, the first one first.
    pub(super) fn write_with(self, range: Range<usize>, mut value: impl FnMut(usize) -> T) -> Result<()> {
        let indices = range.clone();
        self.write(range, |first| {
            for (offset, at) in indices.enumerate() {
                let value = value(at);
                // SAFETY: HOST-WRITE-1: the offset is less than the length of the range.
                let element = unsafe { first.add(offset) };
                // SAFETY: as above: nothing else uses the element.
                unsafe { element.write(value) };
            }
        })
    }

    /// Runs `body` with the address of the first element of `range`, while the memory is mapped.
    ///
    /// # Panics
    /// If the range is not within the elements.
    fn write(self, range: Range<usize>, body: impl FnOnce(NonNull<T>)) -> Result<()> {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "inside the buffer"
        );
        // SAFETY: HOST-WRITE-1: the range was just compared with the length.
        let first = unsafe { self.start.add(range.start) };
        let used = HostUse {
            address: first.cast(),
            bytes: range.len() * size_of::<T>(),
            access: AccessKind::Write,
            passed: self.passed,
        };
        mapped_host::while_mapped(self.core, used, || {
            // After a panic too: the buffer lives on, and may go to another thread.
            let _drained = Drained;
            body(first);
        })
    }
}

/// Sends the processor's gathered writes to memory when it is dropped.
///
/// Counterexample: on x86, writes of write-combined memory stay in the processor's buffers while
/// later writes of other memory are seen. So another thread could receive the buffer by a plain
/// write, and enqueue its upload, before the elements are in memory.
struct Drained;

impl Drop for Drained {
    fn drop(&mut self) {
        fence(Ordering::SeqCst);
    }
}
