use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use memmap2::MmapMut;

/// Pages of host memory that this process mapped itself, zeroed, for a driver to page-lock.
///
/// Not `cuMemHostAlloc`: after a context is reset, memory allocated that way is unmapped under the
/// host's references, while mapped and registered memory can still be read, and copies as fast.
#[derive(Debug)]
pub struct HostMemory {
    /// # Invariants
    /// HOST-MEMORY-1. Mapped, readable and writable for `map.len()` bytes until this value is
    /// dropped.
    /// HOST-MEMORY-2. Never accessed through `map` itself: only through pointers made from `base`.
    map: MmapMut,
    base: NonNull<c_void>,
}

// SAFETY: HOST-MEMORY-2: the value hands out an address only, and whoever uses the address proves
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
