//! [`Reach`]: the memory that work of one device may access. It is the device's own memory,
//! memory of other devices to which it was given access, and host memory that every device reaches.

use std::collections::{BTreeMap, HashSet};
use std::ffi::c_void;
use std::ptr::NonNull;

use super::managed::ManagedMemory;
use super::memory::Memory;
use super::random::Random;

/// The memory that work of a device reaches.
#[derive(Clone, Copy)]
pub(super) struct Reach<'a> {
    pub(super) device: usize,
    /// The memories, by device.
    pub(super) memories: &'a [Memory],
    pub(super) granted: &'a HashSet<(usize, usize)>,
    pub(super) host: &'a HostRanges,
}

impl<'a> Reach<'a> {
    /// The device's own memory.
    pub(super) fn own(&self) -> &'a Memory {
        &self.memories[self.device]
    }

    /// Whether all `bytes` bytes are in one memory that the device reaches.
    pub(super) fn contains(&self, address: u64, bytes: u64) -> bool {
        let granted = |other: usize| self.granted.contains(&(self.device, other));
        let others = self.memories.iter().enumerate();
        self.own().contains(address, bytes)
            || self.host.contains(address, bytes)
            || others
                .filter(|(other, _)| granted(*other))
                .any(|(_, memory)| memory.contains(address, bytes))
    }
}

/// Where memory is, as an update of a graph tells memory apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryKind {
    Device,
    Managed,
    PageLocked,
}

/// Host memory that every device reaches.
#[derive(Debug, Default)]
pub(super) struct HostRanges {
    pub(super) managed: ManagedMemory,
    /// Write-combined memory, which is page-locked too.
    write_combined: ManagedMemory,
    /// The lengths of page-locked ranges, by address.
    registered: BTreeMap<u64, u64>,
}

impl HostRanges {
    /// Page-locks a range. Returns whether no range with this start was page-locked before.
    pub(super) fn register(&mut self, address: NonNull<c_void>, len_bytes: usize) -> bool {
        let start = address.addr().get() as u64;
        let is_new = !self.registered.contains_key(&start);
        if is_new {
            self.registered.insert(start, len_bytes as u64);
        }
        is_new
    }

    /// Ends the range that starts at `address`. Returns whether there was one.
    pub(super) fn unregister(&mut self, address: NonNull<c_void>) -> bool {
        self.registered.remove(&(address.addr().get() as u64)).is_some()
    }

    /// Page-locked memory, filled with junk.
    pub(super) fn take_write_combined(
        &mut self,
        bytes: usize,
        random: &mut Random,
    ) -> Option<NonNull<c_void>> {
        let address = self.write_combined.take(bytes, random)?;
        self.register(address, bytes);
        Some(address)
    }

    /// Ends memory of [`take_write_combined`](Self::take_write_combined). Returns whether there was
    /// such memory.
    pub(super) fn end_write_combined(&mut self, address: NonNull<c_void>, random: &mut Random) -> bool {
        self.write_combined.end(address, random) && self.unregister(address)
    }

    /// Number of page-locked ranges.
    pub(super) fn registered(&self) -> usize {
        self.registered.len()
    }

    /// The kind of the memory at `address`.
    pub(super) fn kind(&self, address: u64) -> MemoryKind {
        if self.managed.contains(address, 1) {
            MemoryKind::Managed
        } else if self.is_registered(address, 1) {
            MemoryKind::PageLocked
        } else {
            MemoryKind::Device
        }
    }

    /// Whether all `bytes` bytes are managed memory, or inside one page-locked range.
    pub(super) fn contains(&self, address: u64, bytes: u64) -> bool {
        self.managed.contains(address, bytes) || self.is_registered(address, bytes)
    }

    /// Whether all `bytes` bytes are inside one page-locked range.
    pub(super) fn is_registered(&self, address: u64, bytes: u64) -> bool {
        let before = self.registered.range(..=address).next_back();
        before.is_some_and(|(start, len)| {
            let from = address - start;
            from <= *len && bytes <= len - from
        })
    }
}
