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
/// A child of `fork` does not get these pages. A signal (SIGSEGV) ends a child that reads or writes
/// at their addresses. Counterexample: a child maps the same pages until one process writes. If the
/// parent writes first, Linux gives it a copy of the page, and the page that the GPU uses stays
/// with the child. The parent then never sees what the GPU writes. (Linux leaves the page with the
/// parent if it knows that a driver holds it; it knows this since 5.9, and from later drivers of
/// NVIDIA only.) Another counterexample: a child finds zeros. It has its parent's references, and a
/// value behind a shared reference would change. `std::process::Command` is safe, and forks for
/// example to change the user.
#[derive(Debug)]
pub struct HostMemory {
    /// # Invariants
    /// HOST-MEMORY-1. Mapped, readable and writable for `map.len()` bytes until this value is
    /// dropped.
    /// HOST-MEMORY-2. Never accessed through `map` itself: only through pointers made from `base`.
    /// HOST-MEMORY-3. On Linux, kept from children. Dropped before `map`, which is declared later.
    #[cfg(target_os = "linux")]
    _kept: crate::process::Kept,
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
        let base: NonNull<c_void> = NonNull::from(&mut map[..]).cast();
        #[cfg(target_os = "linux")]
        {
            keep_from_children(&map)?;
            // SAFETY: HOST-MEMORY-1 and HOST-MEMORY-3: the pages are mapped until `map` is dropped,
            // which comes after the drop of this value.
            let kept = unsafe { crate::process::Kept::new(base.as_ptr(), map.len()) }?;
            Ok(Self {
                _kept: kept,
                map,
                base,
            })
        }
        // CUDA runs on no other system that has `fork`. A child's pages are copies there.
        #[cfg(not(target_os = "linux"))]
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

/// Keeps the pages with this process when it forks.
#[cfg(target_os = "linux")]
fn keep_from_children(map: &MmapMut) -> io::Result<()> {
    let advise = |advice| {
        // SAFETY: the range is mapped, by this value alone. The advice is about the mappings of
        // children, and changes no byte of this process.
        match unsafe { libc::madvise(map.as_ptr().cast_mut().cast(), map.len(), advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // Linux before 4.14 has no empty pages for a child. There, the child has no pages at all until
    // its handler runs.
    advise(libc::MADV_WIPEONFORK).or_else(|_| advise(libc::MADV_DONTFORK))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::HostMemory;

    /// The kernel's flag for a mapping that a child finds empty is `wf`, and `dc` for one that it
    /// does not get.
    #[test]
    fn the_pages_are_kept_from_children() {
        let memory = HostMemory::map(64 << 10).unwrap();
        let address = memory.address().addr().get();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begins = |line: &str| {
            let (from, to) = line.split_once(' ')?.0.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some(number(from)? <= address && address < number(to)?)
        };
        let mut lines = maps.lines().skip_while(|line| begins(line) != Some(true));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        let is_kept = flags.split_whitespace().any(|flag| flag == "wf" || flag == "dc");
        assert!(is_kept, "{flags}");
    }
}
