//! Device memory: real bytes of the host, whose addresses serve as device addresses.
//!
//! Memory is mapped in chunks that stay mapped while the driver lives, so a late access finds wrong
//! bytes, not an unmapped page. Freed memory is overwritten with junk when the free runs, and is
//! the first to be given out again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::NonNull;

use memmap2::MmapMut;

use super::SimDevice;
use super::fault::Call;
use super::random::Random;
use cuda_rt_driver::{
    DeviceAddress, DriverResult, ErrorCode, HostMemory, MemoryInfo, MemoryPoolStats, RawStream,
};

/// Every block starts at a multiple of this, and its length is a multiple of this, in bytes.
const ALIGNMENT: u64 = 256;

/// A block that the program freed, with the free still pending; see [`Memory::retire`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingFree {
    address: u64,
    len_bytes: u64,
    /// The free's place in its stream.
    at: u64,
}

/// The pending frees of one stream whose blocks were not given out again, oldest first.
pub(super) type PendingFrees = VecDeque<PendingFree>;

#[derive(Clone, Copy, Debug)]
struct Block {
    len_bytes: u64,
    /// The block belongs to a capture or a graph, which ends it.
    captured: bool,
    /// The program keeps the block for its next owner.
    free: bool,
}

/// Number of a stream's pending frees that an allocation searches for a block of its size.
const REUSE_WINDOW: usize = 8;

#[derive(Debug)]
struct Chunk {
    /// # Invariants
    /// CHUNK-1. Mapped, readable and writable, until the driver is dropped; accessed only through
    /// addresses exposed from `base`.
    _map: MmapMut,
    base: u64,
    len_bytes: u64,
}

#[derive(Debug)]
pub(super) struct Memory {
    seed: u64,
    limit_bytes: u64,
    used_bytes: u64,
    /// Bytes in freed blocks whose frees are pending and which were not given out again.
    pending_bytes: u64,
    /// Bytes that a pool would hold. This is only accounting: chunks stay mapped.
    reserved_bytes: u64,
    used_peak_bytes: u64,
    reserved_peak_bytes: u64,
    release_threshold_bytes: u64,
    chunks: Vec<Chunk>,
    /// Freed blocks, by length; the last is the most recently freed.
    freed: HashMap<u64, Vec<u64>>,
    /// Lengths of ranges outside all blocks, by address. Disjoint and coalesced.
    ranges: BTreeMap<u64, u64>,
    /// # Invariants
    /// SIM-MEMORY-1. The blocks in use, by address: disjoint, each inside one chunk, and outside
    /// `freed`, `ranges` and every stream's pending frees.
    blocks: HashMap<u64, Block>,
}

impl Memory {
    /// Length of a chunk for small blocks, in bytes. Its pages cost nothing before they are
    /// touched.
    const CHUNK_BYTES: u64 = 64 << 20;

    pub(super) fn new(seed: u64, limit_bytes: u64) -> Self {
        Self {
            seed,
            limit_bytes,
            used_bytes: 0,
            pending_bytes: 0,
            reserved_bytes: 0,
            used_peak_bytes: 0,
            reserved_peak_bytes: 0,
            release_threshold_bytes: u64::MAX,
            chunks: Vec::new(),
            freed: HashMap::new(),
            ranges: BTreeMap::new(),
            blocks: HashMap::new(),
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    pub(super) fn stats(&self) -> MemoryPoolStats {
        MemoryPoolStats {
            reserved_bytes: self.reserved_bytes,
            reserved_peak_bytes: self.reserved_peak_bytes,
            used_bytes: self.used_bytes,
            used_peak_bytes: self.used_peak_bytes,
            release_threshold_bytes: self.release_threshold_bytes,
        }
    }

    pub(super) fn reset_peaks(&mut self) {
        self.used_peak_bytes = self.used_bytes;
        self.reserved_peak_bytes = self.reserved_bytes;
    }

    pub(super) fn set_release_threshold(&mut self, bytes: u64) {
        self.release_threshold_bytes = bytes;
    }

    /// Releases unused memory, down to `keep_bytes`.
    pub(super) fn trim(&mut self, keep_bytes: u64) {
        let held = self.used_bytes + self.pending_bytes;
        self.reserved_bytes = held.max(self.reserved_bytes.min(keep_bytes));
    }

    /// The host has waited for a stream or event.
    pub(super) fn synchronized(&mut self) {
        self.trim(self.release_threshold_bytes);
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Number of blocks that the program keeps free for their next owners.
    pub(super) fn free_blocks(&self) -> usize {
        self.blocks.values().filter(|block| block.free).count()
    }

    /// Takes a block of at least `bytes`; `None` without enough memory. As in CUDA, this may be a
    /// block whose free is still pending in the same stream.
    pub(super) fn take(
        &mut self,
        bytes: u64,
        pending: Option<&mut PendingFrees>,
        random: &mut Random,
    ) -> Option<u64> {
        let len_bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        if len_bytes > self.limit_bytes - self.used_bytes {
            return None;
        }
        let reused = pending.and_then(|pending| {
            let from = pending.len().saturating_sub(REUSE_WINDOW);
            let fits = (from..pending.len())
                .rev()
                .find(|&i| pending[i].len_bytes == len_bytes)?;
            random
                .one_in(2)
                .then(|| pending.remove(fits).expect("found above").address)
        });
        let address = match reused {
            Some(address) => {
                self.pending_bytes -= len_bytes;
                address
            }
            None => self.find(len_bytes, random)?,
        };
        self.used_bytes += len_bytes;
        self.used_peak_bytes = self.used_peak_bytes.max(self.used_bytes);
        self.reserved_bytes = self.reserved_bytes.max(self.used_bytes + self.pending_bytes);
        self.reserved_peak_bytes = self.reserved_peak_bytes.max(self.reserved_bytes);
        self.blocks.insert(
            address,
            Block {
                len_bytes,
                captured: false,
                free: false,
            },
        );
        Some(address)
    }

    fn find(&mut self, len_bytes: u64, random: &mut Random) -> Option<u64> {
        if let Some(same) = self.freed.get_mut(&len_bytes)
            && !same.is_empty()
        {
            // Mostly the last: a program that still uses it soon meets the next owner.
            let i = if random.one_in(4) {
                random.below(same.len())
            } else {
                same.len() - 1
            };
            return Some(same.swap_remove(i));
        }
        if let Some(address) = self.carve(len_bytes) {
            return Some(address);
        }
        self.coalesce();
        if let Some(address) = self.carve(len_bytes) {
            return Some(address);
        }
        self.map(len_bytes)?;
        self.carve(len_bytes)
    }

    /// Cuts a block off the first range that is long enough, and fills it with junk. Mapped memory
    /// is zero, and many wrong programs expect zeros in memory that they have not waited for.
    fn carve(&mut self, len_bytes: u64) -> Option<u64> {
        let (&address, &len) = self.ranges.iter().find(|(_, len)| **len >= len_bytes)?;
        self.ranges.remove(&address);
        if len > len_bytes {
            self.ranges.insert(address + len_bytes, len - len_bytes);
        }
        self.spoil(address, len_bytes, !len_bytes);
        Some(address)
    }

    /// Turns all freed blocks into ranges.
    fn coalesce(&mut self) {
        let freed = self
            .freed
            .drain()
            .flat_map(|(len, blocks)| blocks.into_iter().map(move |at| (at, len)));
        self.ranges.extend(freed);
        let mut coalesced: Vec<(u64, u64)> = Vec::new();
        for (&address, &len) in &self.ranges {
            match coalesced.last_mut() {
                // Adjacent chunks are not joined: no block may span two.
                Some((start, grown))
                    if *start + *grown == address && !self.chunks.iter().any(|c| c.base == address) =>
                {
                    *grown += len;
                }
                _ => coalesced.push((address, len)),
            }
        }
        self.ranges = coalesced.into_iter().collect();
    }

    fn map(&mut self, len_bytes: u64) -> Option<()> {
        let len_bytes = len_bytes.max(Self::CHUNK_BYTES);
        let mut map = MmapMut::map_anon(usize::try_from(len_bytes).ok()?).ok()?;
        let base = map.as_mut_ptr().expose_provenance() as u64;
        debug_assert_eq!(base % ALIGNMENT, 0, "mapped at a page");
        self.ranges.insert(base, len_bytes);
        self.chunks.push(Chunk {
            _map: map,
            base,
            len_bytes,
        });
        Some(())
    }

    /// Ends a block whose free was enqueued at place `at` of a stream. Until
    /// [`recycle`](Self::recycle) is called, only that stream may get the block again: its order
    /// keeps the two owners apart. Returns `None` if no block that may be freed starts at
    /// `address`.
    pub(super) fn retire(&mut self, address: u64, at: u64, pending: &mut PendingFrees) -> Option<u64> {
        let Block { len_bytes, .. } = *self.blocks.get(&address).filter(|block| !block.captured)?;
        self.blocks.remove(&address);
        self.used_bytes -= len_bytes;
        self.pending_bytes += len_bytes;
        pending.push_back(PendingFree {
            address,
            len_bytes,
            at,
        });
        Some(len_bytes)
    }

    /// Runs the free at place `at`: overwrites the block and frees it for every stream, unless its
    /// own stream already has it again.
    pub(super) fn recycle(&mut self, address: u64, len_bytes: u64, at: u64, pending: &mut PendingFrees) {
        self.spoil(address, len_bytes, !at);
        if let Some(index) = pending.iter().position(|free| free.at == at) {
            pending.remove(index);
            self.pending_bytes -= len_bytes;
            self.freed.entry(len_bytes).or_default().push(address);
        }
    }

    /// Ends at once a block that no pending operation uses.
    pub(super) fn release(&mut self, address: u64) {
        if let Some(Block { len_bytes, .. }) = self.blocks.remove(&address) {
            self.used_bytes -= len_bytes;
            self.spoil(address, len_bytes, !0);
            self.freed.entry(len_bytes).or_default().push(address);
        }
    }

    /// The length of the block in use that starts here, if there is one.
    pub(super) fn block_bytes(&self, address: u64) -> Option<u64> {
        self.blocks.get(&address).map(|block| block.len_bytes)
    }

    /// Notes whether the program keeps an allocated block free for its next owner. Returns the
    /// block's length. Returns `None` if no block starts here for which that changes.
    pub(super) fn set_free(&mut self, address: u64, free: bool) -> Option<u64> {
        let block = self.blocks.get_mut(&address)?;
        if block.captured || block.free == free {
            return None;
        }
        block.free = free;
        Some(block.len_bytes)
    }

    /// Gives a block in use to a capture.
    pub(super) fn set_captured(&mut self, address: u64) {
        self.blocks.get_mut(&address).expect("just taken").captured = true;
    }

    /// Whether all `bytes` bytes are memory of this device, in use or not.
    pub(super) fn contains(&self, address: u64, bytes: u64) -> bool {
        let inside = |chunk: &Chunk| {
            address
                .checked_sub(chunk.base)
                .is_some_and(|from| from <= chunk.len_bytes && bytes <= chunk.len_bytes - from)
        };
        self.chunks.iter().rev().any(inside)
    }

    /// Fills memory with junk that depends on the seed and on `salt`. Only the first and the last
    /// 16 MiB are filled, so large buffers cost neither time nor memory that no one uses. A wrong
    /// access to a buffer touches some of these bytes.
    pub(super) fn spoil(&self, address: u64, bytes: u64, salt: u64) {
        const END_BYTES: u64 = 16 << 20;
        assert!(
            self.contains(address, bytes),
            "only this device's memory is spoilt"
        );
        let mut random = Random::new(self.seed ^ salt);
        let ends = [
            (address, bytes.min(END_BYTES)),
            (address + bytes.saturating_sub(END_BYTES), bytes.min(END_BYTES)),
        ];
        for (address, bytes) in ends.into_iter().take(if bytes > END_BYTES { 2 } else { 1 }) {
            let mut junk = [0; ALIGNMENT as usize];
            for word in junk.chunks_exact_mut(8) {
                word.copy_from_slice(&random.next().to_ne_bytes());
            }
            // SAFETY: asserted above: the range is inside a chunk, which is mapped (CHUNK-1).
            unsafe { repeat(address, &junk, bytes as usize) };
        }
    }
}

/// Copies device or host memory. The ranges may overlap, though no correct program's ranges do.
///
/// # Safety
/// Both ranges are mapped, and nothing else uses them now.
pub(super) unsafe fn copy(destination: u64, source: u64, bytes: usize) {
    let source = std::ptr::with_exposed_provenance::<u8>(source as usize);
    let destination = std::ptr::with_exposed_provenance_mut::<u8>(destination as usize);
    // SAFETY: by this function's contract both ranges are mapped, and nothing else uses them now.
    unsafe { source.copy_to(destination, bytes) };
}

/// Writes `pattern` repeatedly until `bytes` bytes are written.
///
/// # Safety
/// The range is mapped, and nothing else uses it now.
pub(super) unsafe fn repeat(destination: u64, pattern: &[u8], bytes: usize) {
    let base = std::ptr::with_exposed_provenance_mut::<u8>(destination as usize);
    let mut done = pattern.len().min(bytes);
    // SAFETY: by this function's contract the range is mapped and unused; `pattern` is a separate
    // host slice.
    unsafe { base.copy_from(pattern.as_ptr(), done) };
    // The bytes already written are copied to double their length, which is as fast as a plain
    // copy.
    while done < bytes {
        let more = done.min(bytes - done);
        // SAFETY: `done + more` is at most `bytes`.
        let next = unsafe { base.add(done) };
        // SAFETY: by this function's contract the range is mapped and unused. `more` is at most
        // `done`, so source and destination do not overlap.
        unsafe { next.copy_from_nonoverlapping(base, more) };
        done += more;
    }
}

impl cuda_rt_driver::Memory for SimDevice {
    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        self.enter(Call::MemoryInfo, |state| {
            let memory = &state.memories[self.device];
            let (total_bytes, used_bytes) = (memory.limit_bytes(), memory.used_bytes());
            Ok(MemoryInfo {
                free_bytes: total_bytes - used_bytes,
                total_bytes,
            })
        })
    }

    unsafe fn alloc(&self, bytes: usize, stream: RawStream) -> DriverResult<DeviceAddress> {
        self.enter(Call::Alloc, |state| state.alloc(bytes, stream))
    }

    unsafe fn free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
        self.enter(Call::Free, |state| state.free(address, stream))
    }

    unsafe fn note_free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
        self.enter_uncounted(Call::Free, |state| state.note_owner(Call::Free, address, stream))
    }

    unsafe fn note_alloc(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
        self.enter_uncounted(Call::Alloc, |state| {
            state.note_owner(Call::Alloc, address, stream)
        })
    }

    fn pool_stats(&self) -> DriverResult<MemoryPoolStats> {
        self.enter(Call::PoolStats, |state| Ok(state.memories[self.device].stats()))
    }

    fn reset_pool_peaks(&self) -> DriverResult<()> {
        self.enter(Call::SetPool, |state| {
            state.memories[self.device].reset_peaks();
            Ok(())
        })
    }

    fn set_release_threshold(&self, bytes: u64) -> DriverResult<()> {
        self.enter(Call::SetPool, |state| {
            state.memories[self.device].set_release_threshold(bytes);
            Ok(())
        })
    }

    fn trim_pool(&self, keep_bytes: u64) -> DriverResult<()> {
        self.enter(Call::TrimPool, |state| {
            state.memories[self.device].trim(keep_bytes);
            Ok(())
        })
    }

    unsafe fn register_host(&self, memory: &HostMemory) -> DriverResult<()> {
        self.enter(Call::RegisterHost, |state| {
            if state.host.register(memory.address(), memory.len_bytes()) {
                return Ok(());
            }
            Err(state.error(Call::RegisterHost, ErrorCode::HOST_MEMORY_ALREADY_REGISTERED))
        })
    }

    unsafe fn unregister_host(&self, memory: &HostMemory) -> DriverResult<()> {
        self.enter(Call::UnregisterHost, |state| {
            if state.host.unregister(memory.address()) {
                return Ok(());
            }
            Err(state.error(Call::UnregisterHost, ErrorCode::INVALID_VALUE))
        })
    }

    fn alloc_write_combined(&self, bytes: usize) -> DriverResult<NonNull<c_void>> {
        self.enter(Call::AllocWriteCombined, |state| {
            if bytes == 0 {
                return Err(state.error(Call::AllocWriteCombined, ErrorCode::INVALID_VALUE));
            }
            let taken = state.host.take_write_combined(bytes, &mut state.random);
            taken.ok_or_else(|| state.error(Call::AllocWriteCombined, ErrorCode::OUT_OF_MEMORY))
        })
    }

    unsafe fn free_write_combined(&self, address: NonNull<c_void>) -> DriverResult<()> {
        self.enter(Call::FreeWriteCombined, |state| {
            if state.host.end_write_combined(address, &mut state.random) {
                return Ok(());
            }
            Err(state.error(Call::FreeWriteCombined, ErrorCode::INVALID_VALUE))
        })
    }

    fn mapped_address(&self, address: NonNull<c_void>) -> DriverResult<DeviceAddress> {
        self.enter(Call::MappedAddress, |state| state.mapped_address(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_at(address: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        // SAFETY: the tests below read blocks of memory that is still mapped.
        unsafe { copy(out.as_mut_ptr().expose_provenance() as u64, address, bytes) };
        out
    }

    #[test]
    fn blocks_in_use_are_aligned_and_never_overlap() {
        let mut random = Random::new(3);
        let mut memory = Memory::new(3, 1 << 30);
        let mut pending = PendingFrees::new();
        let mut live: Vec<(u64, u64)> = Vec::new();
        for at in 0..5_000 {
            if random.one_in(2) || live.is_empty() {
                let bytes = 1 + random.below(3 << 10) as u64;
                let address = memory.take(bytes, Some(&mut pending), &mut random).unwrap();
                assert_eq!(address % ALIGNMENT, 0);
                assert!(memory.contains(address, bytes));
                assert!(
                    live.iter()
                        .all(|&(a, len)| address + bytes <= a || a + len <= address),
                    "overlap"
                );
                live.push((address, bytes));
            } else {
                let (address, _) = live.swap_remove(random.below(live.len()));
                let len = memory.retire(address, at, &mut pending).unwrap();
                if random.one_in(2) {
                    memory.recycle(address, len, at, &mut pending);
                }
            }
        }
        for (address, _) in live {
            memory.release(address);
        }
        assert_eq!((memory.used_bytes(), memory.blocks()), (0, 0));
    }

    #[test]
    fn freed_memory_becomes_whole_again() {
        let mut random = Random::new(0);
        let mut memory = Memory::new(0, 64 << 20);
        let small: Vec<u64> = (0..64)
            .map(|_| memory.take(1 << 20, None, &mut random).unwrap())
            .collect();
        assert_eq!(memory.take(1, None, &mut random), None, "out of memory");
        small.into_iter().for_each(|address| memory.release(address));
        assert!(memory.take(64 << 20, None, &mut random).is_some());
        assert_eq!(memory.chunks.len(), 1);
    }

    #[test]
    fn freed_memory_holds_junk_and_is_reused_soon() {
        let mut random = Random::new(0);
        let mut memory = Memory::new(0, 1 << 20);
        let address = memory.take(1024, None, &mut random).unwrap();
        // SAFETY: a block in use, of this length.
        unsafe { repeat(address, &[1, 2], 1024) };
        assert_eq!(bytes_at(address, 4), [1, 2, 1, 2]);
        memory.release(address);
        assert_ne!(bytes_at(address, 4), [1, 2, 1, 2]);
        assert_eq!(memory.take(1000, None, &mut random), Some(address));
    }

    #[test]
    fn both_ends_of_a_large_block_are_spoilt() {
        let mut random = Random::new(0);
        let mut memory = Memory::new(0, 1 << 30);
        let address = memory.take(100 << 20, None, &mut random).unwrap();
        memory.spoil(address, 100 << 20, 1);
        assert_ne!(bytes_at(address, 8), [0; 8]);
        assert_eq!(bytes_at(address + (50 << 20), 8), [0; 8]);
        assert_ne!(bytes_at(address + (100 << 20) - 8, 8), [0; 8]);
    }
}
