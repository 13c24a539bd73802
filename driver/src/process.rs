//! Which process this is, and the memory that a child of `fork` must not touch.
//!
//! `fork` copies the program's references, but neither its threads nor the memory that a GPU uses.
//! A handler that runs in each child (`pthread_atfork`) counts the forks, and takes that memory
//! away. No handler runs in a child that is made by `clone` or `vfork`. To call these needs
//! `unsafe` code, as long as no crate wraps them in a safe function.

#[cfg(unix)]
use std::fs::File;
use std::io::{self, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(unix)]
use std::sync::OnceLock;
#[cfg(unix)]
use std::sync::atomic::{AtomicU32, Ordering};

/// A process. It differs from its parent and from its children, also if a namespace gives them one
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    id: u32,
    forks: u32,
}

impl Process {
    /// This process.
    pub fn current() -> Self {
        // If the handler could not be registered, the number remains.
        let _ = handle_forks();
        Self {
            id: std::process::id(),
            forks: forks(),
        }
    }

    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Whether this is a child of that process, as the handler counts. Costs no system call, and
    /// does not see a child in which no handler ran.
    #[inline]
    pub fn has_forked(self) -> bool {
        self.forks != forks()
    }

    /// Its number.
    pub fn id(self) -> u32 {
        self.id
    }
}

/// Runs code of a user that a thread of CUDA or of this project calls. A child of `fork` in which
/// that code returns or unwinds is ended: its one thread would go on in the middle of its parent's
/// work. Counterexample: a host function returns into CUDA in the child too, and CUDA tells the GPU
/// that the function is over while the parent is still inside.
#[inline]
pub fn without_children<R>(body: impl FnOnce() -> R) -> R {
    let _ended = EndsChild::new();
    body()
}

/// The number of forks before the user's code.
#[derive(Debug)]
pub struct EndsChild(u32);

impl EndsChild {
    /// Ends each child of this process that [asks](Self::ask) or drops it.
    #[inline]
    #[expect(clippy::new_without_default, reason = "two values differ")]
    pub fn new() -> Self {
        Self(forks())
    }

    /// Ends this process if it is a child.
    #[inline]
    pub fn ask(&self) {
        if forks() != self.0 {
            end_child(
                "H26: a child of `fork` cannot return from a closure that a thread of its parent runs: \
                 fork outside of the closure, or end the child inside it",
            );
        }
    }
}

impl Drop for EndsChild {
    #[inline]
    fn drop(&mut self) {
        self.ask();
    }
}

/// Says why this child of `fork` ends, and ends it.
#[cold]
pub fn end_child(why: &str) -> ! {
    // `eprintln` would panic where standard error cannot be written: the child would unwind. The
    // lock of `io::stderr` may be held by a thread that the child lacks: the child would wait.
    let _ = write_error(format!("{why}\n").as_bytes());
    std::process::abort();
}

/// Writes to standard error, and takes no lock.
#[cfg(unix)]
fn write_error(text: &[u8]) -> io::Result<()> {
    let error = io::stderr().as_fd().try_clone_to_owned()?;
    File::from(error).write_all(text)
}

#[cfg(not(unix))]
fn write_error(text: &[u8]) -> io::Result<()> {
    io::stderr().write_all(text)
}

/// Number of forks between the process that registered the handler and this one.
#[cfg(unix)]
static FORKS: AtomicU32 = AtomicU32::new(0);

#[cfg(unix)]
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

#[cfg(not(unix))]
pub(crate) fn forks() -> u32 {
    0
}

/// Registers the handler, once.
///
/// # Errors
/// The operating system's: it has no memory for the handler.
#[cfg(unix)]
fn handle_forks() -> io::Result<()> {
    static REGISTERED: OnceLock<i32> = OnceLock::new();
    let code = *REGISTERED.get_or_init(|| {
        // SAFETY: the handler is a function of the program. In a child it makes calls that are safe
        // after a fork, takes no lock and allocates nothing.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) }
    });
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

#[cfg(not(unix))]
fn handle_forks() -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    #[cfg(target_os = "linux")]
    kept::take_away();
}

#[cfg(target_os = "linux")]
pub use kept::Kept;

/// Memory that children of `fork` must not touch. CUDA runs on no other system that has `fork`, so
/// this keeps nothing here.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Kept(());

#[cfg(not(target_os = "linux"))]
impl Kept {
    /// # Safety
    /// As on Linux.
    ///
    /// # Errors
    /// None.
    pub unsafe fn new(_: *mut std::ffi::c_void, _: usize) -> io::Result<Self> {
        Ok(Self(()))
    }
}

/// Memory that children of `fork` must not touch.
#[cfg(target_os = "linux")]
mod kept {
    use std::ffi::c_void;
    use std::io;
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

    /// The entries, which are never freed: a child reads them without a lock.
    static NEWEST: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

    /// The length of an entry that its owner has not filled in.
    const TAKEN: usize = usize::MAX;

    /// # Invariants
    /// ENTRY-1. Unless `bytes` is 0 or [`TAKEN`], the process that filled the entry in maps that
    /// many bytes from `address` on, the start of a page. Whatever lies in these pages is memory
    /// that children must not touch.
    /// ENTRY-2. Does not change once the entry is in the list.
    struct Entry {
        address: AtomicPtr<c_void>,
        bytes: AtomicUsize,
        next: Option<&'static Entry>,
    }

    fn entries() -> impl Iterator<Item = &'static Entry> {
        // SAFETY: an entry in the list is leaked, and nothing refers to it uniquely.
        let newest = unsafe { NEWEST.load(Ordering::Acquire).as_ref() };
        std::iter::successors(newest, |entry| entry.next)
    }

    /// Keeps a range of pages from children until it is dropped: no page is mapped at its addresses
    /// there, and none will be.
    #[derive(Debug)]
    pub struct Kept(&'static AtomicUsize);

    impl Kept {
        /// # Safety
        /// The `bytes` bytes at `address` (more than 0) are mapped until this is dropped, and a
        /// child of `fork` has no use for anything in their pages.
        ///
        /// # Errors
        /// The operating system's, if no handler can be registered.
        pub unsafe fn new(address: *mut c_void, bytes: usize) -> io::Result<Self> {
            super::handle_forks()?;
            // SAFETY: the call takes no pointer.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let before = address.addr() % usize::try_from(page).map_err(io::Error::other)?;
            let (address, bytes) = (address.wrapping_byte_sub(before), bytes + before);
            let take = |entry: &&'static Entry| {
                let taken = entry
                    .bytes
                    .compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed);
                taken.is_ok()
            };
            let entry = entries().find(take).unwrap_or_else(add);
            entry.address.store(address, Ordering::Relaxed);
            // ENTRY-1: by this function's contract. A child that sees the length sees the address.
            entry.bytes.store(bytes, Ordering::Release);
            Ok(Self(&entry.bytes))
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            // ENTRY-1 ends before the pages are unmapped.
            self.0.store(0, Ordering::Release);
        }
    }

    /// Adds an entry that is taken.
    fn add() -> &'static Entry {
        let mut newest = NEWEST.load(Ordering::Acquire);
        let entry = Box::leak(Box::new(Entry {
            address: AtomicPtr::new(ptr::null_mut()),
            bytes: AtomicUsize::new(TAKEN),
            next: None,
        }));
        loop {
            // SAFETY: as in `entries`.
            entry.next = unsafe { newest.as_ref() };
            // ENTRY-2: nothing uses `entry` by another name before the exchange succeeds.
            match NEWEST.compare_exchange(newest, &raw mut *entry, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return entry,
                Err(other) => newest = other,
            }
        }
    }

    /// Replaces the pages of this process by pages that nobody may read or write. Ends the process
    /// if it cannot.
    pub(super) fn take_away() {
        for entry in entries() {
            let bytes = entry.bytes.load(Ordering::Acquire);
            if bytes == 0 || bytes == TAKEN {
                continue;
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            let address = entry.address.load(Ordering::Relaxed);
            // SAFETY: ENTRY-1: in this child nothing may use the pages, if it has them at all. From
            // now on, pointers of its parent lead to pages that end the process.
            let mapped = unsafe { libc::mmap(address, bytes, libc::PROT_NONE, flags, -1, 0) };
            if mapped == libc::MAP_FAILED {
                // SAFETY: the call ends the process, and is safe after a fork.
                unsafe { libc::abort() };
            }
        }
    }
}
