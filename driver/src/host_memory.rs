use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use memmap2::MmapMut;

/// Zeroed pages of host memory, mapped by this process, for a driver to page-lock.
///
/// The pages are not from `cuMemHostAlloc`: a reset of the context would unmap such memory under
/// the host's references. Mapped and registered memory can still be read after a reset, and copies
/// are as fast. Write-combined memory is not of this kind: only `cuMemHostAlloc` makes it, and
/// `cuMemHostRegister` has no flag for it. The host gets no references to that memory.
///
/// A child of `fork` does not get these pages. It finds zeros at their addresses, and its writes
/// stay its own. Counterexample: a child maps the same pages until one process writes. If the
/// parent writes first, Linux gives it a copy of the page, and the page that the GPU uses stays
/// with the child. The parent then never sees what the GPU writes. (Linux leaves the page with the
/// parent if it knows that a driver holds it; it knows this since 5.9, and from later drivers of
/// NVIDIA only.) `std::process::Command` is safe, and forks for example to change the user.
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
    /// The operating system's, when it has no memory, or cannot keep the memory from a child.
    pub fn map(bytes: usize) -> io::Result<Self> {
        let mut map = MmapMut::map_anon(bytes.max(1))?;
        let base = NonNull::from(&mut map[..]).cast();
        let memory = Self { map, base };
        memory.keep_from_children()?;
        Ok(memory)
    }

    /// Keeps the pages from children of `fork`, which find zeroed pages instead.
    #[cfg(target_os = "linux")]
    fn keep_from_children(&self) -> io::Result<()> {
        let advise = |advice| {
            // SAFETY: HOST-MEMORY-1: the range is mapped, by this value alone. The advice is about
            // the mappings of children, and changes no byte of this process.
            match unsafe { libc::madvise(self.base.as_ptr(), self.map.len(), advice) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // Linux before 4.14 has no zeroed pages for a child. The child then has no pages at all:
        // the parent's data come first.
        advise(libc::MADV_WIPEONFORK).or_else(|_| advise(libc::MADV_DONTFORK))
    }

    /// CUDA runs on no other system that has `fork`.
    #[cfg(not(target_os = "linux"))]
    fn keep_from_children(&self) -> io::Result<()> {
        Ok(())
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
