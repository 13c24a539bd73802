use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use memmap2::MmapMut;

/// Zeroed pages of host memory, mapped by this process, for a driver to page-lock.
///
/// The pages are not from `cuMemHostAlloc`: a reset of the context would unmap such memory under
/// the host's references. Mapped and registered memory can still be read after a reset, and copies
/// are as fast. For the same reason no memory is write-combined: only `cuMemHostAlloc` makes such
/// memory, and `cuMemHostRegister` has no flag for it.
#[derive(Debug)]
pub struct HostMemory {
    /// # Invariants
    /// HOST-MEMORY-1. Mapped, readable and writable for `map.len()` bytes until this value is
    /// dropped.
    /// HOST-MEMORY-2. Never accessed through `map` itself: only through pointers made from `base`.
    map: MmapMut,
    base: NonNull<c_void>,
}

// SAFETY: HOST-MEMORY-2: this value only hands out an address. Each user of the address proves
// exclusive access.
unsafe impl Send for HostMemory {}
// SAFETY: as above; no method reads or writes the memory.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Maps at least `bytes` bytes (more than 0), zeroed, aligned to a page.
    ///
    /// # Errors
    /// The operating system's, when it has no memory.
    pub fn map(bytes: usize) -> io::Result<Self> {
        let mut map = MmapMut::map_anon(bytes.max(1))?;
        let base = NonNull::from(&mut map[..]).cast();
        Ok(Self { map, base })
    }

    /// Where the memory starts.
    pub fn address(&self) -> NonNull<c_void> {
        self.base
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.map.len()
    }
}
