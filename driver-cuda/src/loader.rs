//! The process that loaded the driver: no other process makes a call of it.
//!
//! A child of `fork` has a copy of the library's memory, without its threads and its context. It
//! shares the GPU's command queues with its parent: a call would write into the parent's work. CUDA
//! supports no call in such a child, and does not detect all of them ("Initialization" in the CUDA
//! C++ Programming Guide). NCCL sets flags in memory that both processes share.
//!
//! The state of the gate, which each call reads ([`process_end`](super::process_end)), is therefore
//! alone in pages that Linux wipes in a child (`MADV_WIPEONFORK`), also where the child was made by
//! `clone` and ran no handler. A child reads [`State::UNKNOWN`], as a process does that has not
//! loaded the driver yet; the number of the loader, which is not wiped, tells the two apart. Where
//! pages cannot be wiped, a handler of `pthread_atfork` sets the state instead. A child of `vfork`
//! has its parent's memory itself, and no state of its own.

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(unix)]
use super::membarrier;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

/// A library's status type.
pub(super) trait Status {
    /// The status of a call that was not made, because the process ends.
    const PROCESS_ENDS: Self;
    /// The status of a call that was not made, because another process loaded the driver.
    const FORKED: Self;
}

/// Why a call is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    ProcessEnds,
    Forked,
}

impl Refusal {
    /// The status that says so.
    #[cold]
    pub(super) fn status<S: Status>(self) -> S {
        match self {
            Self::ProcessEnds => S::PROCESS_ENDS,
            Self::Forked => S::FORKED,
        }
    }

    /// The error of the call of this name.
    #[cold]
    pub(super) fn error(self, call: &'static str) -> DriverError {
        match self {
            Self::ProcessEnds => DriverError::new(call, ErrorCode::DEINITIALIZED),
            Self::Forked => DriverError::with_detail(call, ErrorCode::NOT_INITIALIZED, why_forked()),
        }
    }
}

fn why_forked() -> String {
    format!(
        "this process was forked, and the CUDA driver stayed in process {}, which loaded it: CUDA \
         works in no child of `fork`. Fork before the first use of a device, or use CUDA in a \
         program of its own (`exec`)",
        loader()
    )
}

/// An error if this is a child of the process that loaded the driver.
pub(super) fn check(call: &'static str) -> DriverResult<()> {
    match is_child() {
        true => Err(Refusal::Forked.error(call)),
        false => Ok(()),
    }
}

/// The state of the gate.
#[cfg(unix)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u32);

#[cfg(unix)]
impl State {
    /// No process has loaded the driver, or another process has. Zero, as in a wiped page.
    pub(super) const UNKNOWN: Self = Self(0);
    /// This process loaded the driver. `membarrier` stands for the barrier of each call.
    pub(super) const OPEN: Self = Self(1);
    /// As `OPEN`, where Linux has no `membarrier`.
    pub(super) const FENCED: Self = Self(2);
    /// The process ends.
    pub(super) const SHUT: Self = Self(3);
    /// Another process loaded the driver. Only [`settled_state`] returns it.
    pub(super) const FORKED: Self = Self(4);
}

/// The state, alone in its pages. The largest page of Linux on x86-64 is 4 KiB, and on ARM 64 KiB.
#[cfg(unix)]
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(65536)))]
struct Pages(AtomicU32);

#[cfg(unix)]
static STATE: Pages = Pages(AtomicU32::new(State::UNKNOWN.0));
/// The number of the process that loaded the driver, or 0.
#[cfg(unix)]
static LOADER: AtomicU32 = AtomicU32::new(0);

/// The state, as a call reads it: `UNKNOWN` in a child.
#[cfg(unix)]
#[inline]
pub(super) fn state() -> State {
    State(STATE.0.load(Ordering::Relaxed))
}

/// The state, with `FORKED` in a child.
#[cfg(unix)]
pub(super) fn settled_state() -> State {
    let settled = state();
    // The acquire pairs with `begin`: whoever sees the loader sees a state that it has set.
    if settled == State::UNKNOWN && LOADER.load(Ordering::Acquire) != 0 {
        return match state() {
            State::UNKNOWN => State::FORKED,
            other => other,
        };
    }
    settled
}

/// Whether another process loaded the driver.
#[cfg(unix)]
pub(super) fn is_child() -> bool {
    settled_state() == State::FORKED
}

/// Whether this process loaded the driver.
#[cfg(unix)]
pub(super) fn is_this_process() -> bool {
    // The number alone would be a child's too, if namespaces give both processes one number.
    state() != State::UNKNOWN && loader() == std::process::id()
}

#[cfg(unix)]
fn loader() -> u32 {
    LOADER.load(Ordering::Relaxed)
}

/// Makes this process the one that loads the driver, unless there is one. Called before the driver
/// is loaded.
///
/// # Errors
/// The operating system can neither wipe the state in a child nor run a handler there.
#[cfg(unix)]
pub(super) fn begin() -> DriverResult<()> {
    begin_with(wipe_in_children)
}

#[cfg(unix)]
fn begin_with(wipe: impl FnOnce() -> io::Result<()>) -> DriverResult<()> {
    if loader() != 0 {
        return Ok(());
    }
    wipe().or_else(|_| handle_forks()).map_err(|error| {
        let detail = format!("children of `fork` cannot be told from this process: {error}");
        DriverError::with_detail("cuInit", ErrorCode::OPERATING_SYSTEM, detail)
    })?;
    let open = match membarrier::register() {
        true => State::OPEN,
        false => State::FENCED,
    };
    // Another thread may have begun, and the process may even end.
    let _ = STATE
        .0
        .compare_exchange(State::UNKNOWN.0, open.0, Ordering::Relaxed, Ordering::Relaxed);
    // A child that was forked before this line has no loader, and becomes one.
    LOADER.store(std::process::id(), Ordering::Release);
    Ok(())
}

/// Shuts the gate. Returns the state before.
#[cfg(unix)]
pub(super) fn shut() -> State {
    State(STATE.0.swap(State::SHUT.0, Ordering::Relaxed))
}

/// Has Linux wipe the state in each child.
#[cfg(target_os = "linux")]
fn wipe_in_children() -> io::Result<()> {
    let bytes = size_of::<Pages>();
    let address = std::ptr::from_ref(&STATE).cast_mut();
    // SAFETY: the call takes no pointer.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
    if !bytes.is_multiple_of(page) || !address.addr().is_multiple_of(page) {
        return Err(io::Error::other(format!("pages of {page} bytes")));
    }
    // SAFETY: nothing but `STATE` is in these whole pages. They change in a child only, where zero
    // is a state.
    match unsafe { libc::madvise(address.cast(), bytes, libc::MADV_WIPEONFORK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn wipe_in_children() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Registers a handler that sets the state in each child.
#[cfg(unix)]
fn handle_forks() -> io::Result<()> {
    unsafe extern "C" fn in_child() {
        STATE.0.store(State::UNKNOWN.0, Ordering::Relaxed);
    }
    // SAFETY: the handler is a function of the program, and only writes a number.
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

#[cfg(not(unix))]
pub(super) fn is_child() -> bool {
    false
}

#[cfg(not(unix))]
fn loader() -> u32 {
    std::process::id()
}

#[cfg(not(unix))]
pub(super) fn begin() -> DriverResult<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process_end::enter;

    const VARIABLE: &str = "CUDA_RT_TEST_LOADER";

    /// Runs the test of this name in a process of its own, which begins in this way.
    fn in_a_process(test: &str, begins: impl FnOnce() -> DriverResult<()>, body: impl FnOnce()) {
        if std::env::var_os(VARIABLE).is_none() {
            let ended = Command::new(std::env::current_exe().unwrap())
                .args([&format!("loader::tests::{test}"), "--exact", "--nocapture"])
                .env(VARIABLE, test)
                .output()
                .unwrap();
            assert!(ended.status.success(), "{ended:?}");
            return;
        }
        // Before a process loads the driver, each process may.
        assert!(check("cuInit").is_ok() && enter().is_ok());
        assert_eq!(refused_in(fork), [false; 2]);
        begins().unwrap();
        assert!(is_this_process());
        body();
        assert!(is_this_process() && check("cuInit").is_ok() && enter().is_ok());
    }

    fn fork() -> i32 {
        // SAFETY: `refused_in` says what the child does.
        unsafe { libc::fork() }
    }

    /// Makes a child as `fork` does, without its handlers.
    fn clone() -> i32 {
        // SAFETY: the child gets a copy of this thread's stack; `refused_in` says what it does.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        child.try_into().unwrap()
    }

    /// Whether a call is refused in a child, and in a child of the child.
    fn refused_in(makes_a_child: fn() -> i32) -> [bool; 2] {
        let refused = || {
            let refused = enter().err();
            assert_eq!(refused.is_some(), check("cuInit").is_err());
            assert!(refused.is_none_or(|why| why == Refusal::Forked));
            refused.is_some()
        };
        let mut status = -1;
        let child = makes_a_child();
        assert!(child >= 0, "no child could be made");
        if child == 0 {
            // The child makes calls that are safe after a fork, allocates by glibc's allocator,
            // which works there, and ends in this block.
            let first = refused();
            let inner = makes_a_child();
            if inner == 0 {
                // SAFETY: the call ends the process at once.
                unsafe { libc::_exit(i32::from(refused())) };
            }
            // SAFETY: `inner` is a child of this process, and `status` has room for its status.
            unsafe { libc::waitpid(inner, &raw mut status, 0) };
            // SAFETY: the call ends the process at once.
            unsafe { libc::_exit(i32::from(first) + 2 * libc::WEXITSTATUS(status)) };
        }
        // SAFETY: `child` is a child of this process, and `status` has room for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "{status}");
        let bits = libc::WEXITSTATUS(status);
        assert!(bits < 4, "the child panicked");
        [bits & 1 != 0, bits & 2 != 0]
    }

    #[test]
    fn children_of_fork_and_of_clone_make_no_call() {
        in_a_process("children_of_fork_and_of_clone_make_no_call", begin, || {
            assert_eq!(refused_in(fork), [true; 2]);
            assert_eq!(refused_in(clone), [true; 2]);
            shut();
            assert_eq!(enter().err(), Some(Refusal::ProcessEnds));
            assert_eq!(refused_in(clone), [true; 2]);
            STATE.0.store(State::OPEN.0, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_handler_stands_in_where_no_page_is_wiped() {
        let not_wiped = || begin_with(|| Err(io::ErrorKind::Unsupported.into()));
        in_a_process("a_handler_stands_in_where_no_page_is_wiped", not_wiped, || {
            assert_eq!(refused_in(fork), [true; 2]);
        });
    }

    /// The kernel's flag for a mapping that a child finds empty is `wf`.
    #[test]
    fn the_state_is_wiped_in_children() {
        wipe_in_children().unwrap();
        let address = std::ptr::from_ref(&STATE).addr();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begins = |line: &str| {
            let (from, to) = line.split_once(' ')?.0.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some((number(from)?, number(to)?))
        };
        let is_here = |line: &&str| begins(line).is_some_and(|(from, to)| (from..to).contains(&address));
        let range = begins(maps.lines().find(is_here).unwrap()).unwrap();
        assert_eq!(
            range,
            (address, address + size_of::<Pages>()),
            "other memory is wiped too"
        );
        let mut lines = maps.lines().skip_while(|line| !is_here(line));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        assert!(flags.split_whitespace().any(|flag| flag == "wf"), "{flags}");
    }

    #[test]
    fn the_error_says_why_and_what_to_do() {
        let error = Refusal::Forked.error("cuLaunchKernel");
        assert_eq!(
            (error.call(), error.code()),
            ("cuLaunchKernel", ErrorCode::NOT_INITIALIZED)
        );
        for part in ["this process was forked", "Fork before the first use", "exec"] {
            assert!(error.detail().contains(part), "{error}");
        }
    }
}
