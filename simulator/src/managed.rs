//! Managed memory: pages of the host that every device reaches. Freed memory is overwritten at
//! once, stays mapped, and is the first to be given out again.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;

use super::fault::Call;
use super::memory;
use super::random::Random;
use super::{SimDevice, State};
use cuda_rt_driver::{Advice, DriverError, DriverResult, ErrorCode, Location, Managed, RawStream};
use memmap2::MmapMut;

/// Zeroed pages. A child of `fork` has them too, as it has those of `cuMemHostAlloc`. So whoever
/// uses them must keep them from children.
#[derive(Debug)]
struct Pages {
    /// # Invariants
    /// PAGES-1. Never accessed through `map` itself: only through pointers made from `base`. It is
    /// mapped until this value is dropped.
    map: MmapMut,
    base: NonNull<c_void>,
}

// SAFETY: PAGES-1: this value only hands out an address. Each user of the address proves exclusive
// access.
unsafe impl Send for Pages {}

impl Pages {
    fn map(bytes: usize) -> Option<Self> {
        let mut map = MmapMut::map_anon(bytes).ok()?;
        let base = NonNull::from(&mut map[..]).cast();
        Some(Self { map, base })
    }

    fn len_bytes(&self) -> usize {
        self.map.len()
    }
}

/// Managed memory of a host, or other memory that the driver allocates and the host reaches.
#[derive(Debug, Default)]
pub(super) struct ManagedMemory {
    /// The allocations in use, by address.
    in_use: BTreeMap<u64, Pages>,
    freed: Vec<Pages>,
}

impl ManagedMemory {
    /// Number of allocations in use.
    pub(super) fn allocations(&self) -> usize {
        self.in_use.len()
    }

    /// Whether all `bytes` bytes are inside one allocation.
    pub(super) fn contains(&self, address: u64, bytes: u64) -> bool {
        let before = self.in_use.range(..=address).next_back();
        before.is_some_and(|(start, memory)| {
            let (from, len) = (address - start, memory.len_bytes() as u64);
            from <= len && bytes <= len - from
        })
    }

    /// An allocation of `bytes` bytes, filled with junk: many wrong programs expect zeros.
    pub(super) fn take(&mut self, bytes: usize, random: &mut Random) -> Option<NonNull<c_void>> {
        let same = self.freed.iter().rposition(|memory| memory.len_bytes() == bytes);
        let memory = match same {
            Some(same) => self.freed.swap_remove(same),
            None => Pages::map(bytes)?,
        };
        let address = memory.base;
        spoil(&memory, random);
        let start = address.as_ptr().expose_provenance() as u64;
        self.in_use.insert(start, memory);
        Some(address)
    }

    pub(super) fn end(&mut self, address: NonNull<c_void>, random: &mut Random) -> bool {
        let Some(memory) = self.in_use.remove(&(address.addr().get() as u64)) else {
            return false;
        };
        spoil(&memory, random);
        self.freed.push(memory);
        true
    }
}

/// Overwrites memory with junk.
fn spoil(memory: &Pages, random: &mut Random) {
    let mut junk = [0; 256];
    for word in junk.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_ne_bytes());
    }
    let start = memory.base.as_ptr().expose_provenance() as u64;
    // SAFETY: the memory is mapped for that many bytes (PAGES-1). No operation runs now, and
    // the host does not use memory before it is given out or after it was freed, by the contract of
    // `free_managed` and `free_write_combined`.
    unsafe { memory::repeat(start, &junk, memory.len_bytes()) };
}

fn number(address: NonNull<c_void>) -> u64 {
    address.addr().get() as u64
}

impl SimDevice {
    /// Checks that the range is managed memory.
    fn check_managed(state: &State, call: Call, address: NonNull<c_void>, bytes: usize) -> DriverResult<()> {
        if state.host.managed.contains(number(address), bytes as u64) {
            return Ok(());
        }
        Err(state.error(call, ErrorCode::INVALID_VALUE))
    }
}

impl Managed for SimDevice {
    fn alloc_managed(&self, bytes: usize) -> DriverResult<NonNull<c_void>> {
        self.enter(Call::AllocManaged, |state| {
            if !state.config.managed_memory {
                let detail = format!("configured without managed memory ({})", state.origin());
                let (call, code) = (Call::AllocManaged.name(), ErrorCode::NOT_SUPPORTED);
                return Err(DriverError::with_detail(call, code, detail));
            }
            if bytes == 0 {
                return Err(state.error(Call::AllocManaged, ErrorCode::INVALID_VALUE));
            }
            let taken = state.host.managed.take(bytes, &mut state.random);
            taken.ok_or_else(|| state.error(Call::AllocManaged, ErrorCode::OUT_OF_MEMORY))
        })
    }

    unsafe fn free_managed(&self, address: NonNull<c_void>) -> DriverResult<()> {
        self.enter(Call::FreeManaged, |state| {
            if state.host.managed.end(address, &mut state.random) {
                return Ok(());
            }
            Err(state.error(Call::FreeManaged, ErrorCode::INVALID_VALUE))
        })
    }

    cuda_rt_driver::managed_calls! { |this: &SimDevice|
        prefetch(address, bytes, _to, stream) => {
            this.enter(Call::Prefetch, |state| {
                SimDevice::check_managed(state, Call::Prefetch, address, bytes)?;
                // The bytes stay the same, so there is nothing to run.
                match state.stream(Call::Prefetch, stream)?.capture {
                    Some(_) => Err(state.error(Call::Prefetch, ErrorCode::STREAM_CAPTURE_UNSUPPORTED)),
                    None => Ok(()),
                }
            })
        };

        advise(address, bytes, _advice) => {
            this.enter(Call::Advise, |state| {
                SimDevice::check_managed(state, Call::Advise, address, bytes)
            })
        };
    }

    cuda_rt_driver::managed_calls! { |_this: &SimDevice|
        while_mapped(body) => {
            // The pages stay mapped while the driver lives.
            body();
            Ok(())
        };
    }
}
