//! The end of the process: no thread is inside a library of NVIDIA's while the library's exit
//! handlers run.
//!
//! `exit`, which Rust calls when `main` returns, runs exit handlers on one thread while all other
//! threads go on. The handlers of the libraries destroy their state. NVIDIA calls a later call
//! undefined behaviour ("Initialization" in the CUDA C++ Programming Guide), and the libraries do
//! not detect all of them. Safe code makes such calls: a thread that was not joined goes on, and
//! so do the runtime's own threads.
//!
//! Therefore each call passes this gate:
//!
//! 1. A call [`enter`]s: it counts itself in the slot of its thread, and then reads the state of
//!    the gate. If the process ends, the call is not made, and its status says so
//!    ([`Status::PROCESS_ENDS`](super::loader::Status::PROCESS_ENDS)).
//! 2. An exit handler of ours shuts the gate, and waits until no other thread is counted. It runs
//!    before the handlers that were registered earlier. [`shut_at_exit`] registers it whenever a
//!    library was loaded or a context was made, and behind the first module, graph, collective and
//!    trace. The libraries have registered their own by then. A thread that is inside the first of
//!    these calls as the process ends is not covered.
//! 3. A thread that waits for the GPU may stay inside for long. After [`PATIENCE`] the handler ends
//!    the process at once (`_exit`, with the status given to `exit`), and prints why. The remaining
//!    handlers do not run then; the buffers of C's streams are not written.
//!
//! Steps 1 and 2 are Dekker's algorithm: one side writes its count and reads the gate, the other
//! writes the gate and reads the counts. Between the two accesses each side needs a barrier, so
//! that at least one sees the other. The frequent side leaves its barrier to the rare side where
//! Linux can: `membarrier` makes every running thread of the process execute one. (The counters of
//! userspace RCU work like this: M. Desnoyers et al., "User-Level Implementations of Read-Copy
//! Update", 2012.)
//!
//! A thread of CUDA's that runs the user's part of a host function is inside the library too: the
//! library called it. The part counts as a call ([`GATE`]). A function that begins later is not
//! run. If the part itself ends the process, it has to return into the library, so the process
//! ends at once. What the library's threads do before and after that part is the library's affair:
//! its handlers stop them.
//!
//! A closure that reads managed memory counts as a call as well, and may end the process itself.
//! Other threads may then read the memory, which the handlers unmap. So the process ends at once.
//!
//! The same state refuses every call in a child of `fork` ([`loader`](super::loader)).
//!
//! Windows ends all other threads before any library is told of the end, so it needs nothing.

#[cfg(unix)]
use std::cell::Cell;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, compiler_fence, fence};

use super::loader::Refusal;
#[cfg(unix)]
use super::loader::{self, State};
#[cfg(unix)]
use super::membarrier;
#[cfg(unix)]
use cuda_rt_driver::host_function::{self, Gate};

/// How long the end of the process waits for calls to return.
#[cfg(unix)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// The calls of one thread. A slot is never freed; another thread takes it over.
#[cfg(unix)]
struct Slot {
    /// Calls that the thread is inside of; written by this thread only.
    calls: AtomicU32,
    is_taken: AtomicBool,
    /// The slot that was made before.
    next: Option<&'static Slot>,
}

/// The newest slot.
#[cfg(unix)]
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

#[cfg(unix)]
thread_local! {
    /// Has no destructor, so that destructors of other thread-locals can still make calls.
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    static OWNER: Owner = const { Owner };
}

/// Gives the thread's slot back when the thread ends.
#[cfg(unix)]
struct Owner;

#[cfg(unix)]
impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(slot) = SLOT.take() {
            // `exit` inside of a callback runs this inside of a call.
            let is_inside = slot.calls.load(Ordering::Relaxed) > 0;
            slot.is_taken.store(is_inside, Ordering::Release);
        }
    }
}

/// Proof that the gate was open when the call began. The end of the process waits for its drop.
#[must_use = "the call must be over before this is dropped"]
pub(super) struct Inside(
    #[cfg(unix)] &'static Slot,
    /// The count belongs to the thread.
    std::marker::PhantomData<*const ()>,
);

/// Begins a call, or says why none may be made.
#[cfg(unix)]
#[inline]
pub(super) fn enter() -> Result<Inside, Refusal> {
    let slot = SLOT.get().unwrap_or_else(take_slot);
    let calls = slot.calls.load(Ordering::Relaxed);
    slot.calls.store(calls + 1, Ordering::Relaxed);
    let inside = Inside(slot, std::marker::PhantomData);
    // `membarrier` stands for the barrier in this state.
    compiler_fence(Ordering::SeqCst);
    match loader::state() {
        State::OPEN => Ok(inside),
        _ => enter_behind_a_barrier(inside),
    }
}

/// The rest of [`enter`] in all other states.
#[cfg(unix)]
#[cold]
fn enter_behind_a_barrier(inside: Inside) -> Result<Inside, Refusal> {
    fence(Ordering::SeqCst);
    match loader::settled_state() {
        State::OPEN | State::FENCED | State::UNKNOWN => Ok(inside),
        State::FORKED => Err(Refusal::Forked),
        _ => Err(Refusal::ProcessEnds),
    }
}

#[cfg(not(unix))]
#[inline]
pub(super) fn enter() -> Result<Inside, Refusal> {
    Ok(Inside(std::marker::PhantomData))
}

#[cfg(unix)]
impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        let calls = self.0.calls.load(Ordering::Relaxed);
        // What the call did happens before what the handler does once it has read this.
        self.0.calls.store(calls - 1, Ordering::Release);
    }
}

/// The gate, for the user's parts of host functions.
#[cfg(unix)]
const GATE: Gate = Gate {
    enter: || match enter() {
        Ok(inside) => {
            // The count stays until `leave`.
            std::mem::forget(inside);
            true
        }
        // In a child, only simulated devices call host functions.
        Err(refusal) => refusal == Refusal::Forked,
    },
    leave: || {
        if let Some(slot) = SLOT.get()
            && !loader::is_child()
        {
            drop(Inside(slot, std::marker::PhantomData));
        }
    },
};

/// A slot for this thread: one that an ended thread left, or a new one.
#[cfg(unix)]
#[cold]
fn take_slot() -> &'static Slot {
    let take = |slot: &&'static Slot| {
        slot.is_taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    };
    let slot = slots().find(take).unwrap_or_else(add_slot);
    SLOT.set(Some(slot));
    // Where the thread's destructors have begun, the slot stays taken.
    let _ = OWNER.try_with(|_| ());
    slot
}

#[cfg(unix)]
fn slots() -> impl Iterator<Item = &'static Slot> {
    let newest = SLOTS.load(Ordering::Acquire);
    // SAFETY: SLOTS holds null or a slot that `add_slot` leaked.
    // The acquire pairs with its release.
    let newest = unsafe { newest.as_ref() };
    std::iter::successors(newest, |slot| slot.next)
}

#[cfg(unix)]
fn add_slot() -> &'static Slot {
    let slot = Box::leak(Box::new(Slot {
        calls: AtomicU32::new(0),
        is_taken: AtomicBool::new(true),
        next: None,
    }));
    let mut newest = SLOTS.load(Ordering::Acquire);
    loop {
        // SAFETY: as in `slots`.
        slot.next = unsafe { newest.as_ref() };
        // Nothing uses `slot` by another name before the exchange succeeds.
        match SLOTS.compare_exchange(newest, &raw mut *slot, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return slot,
            Err(other) => newest = other,
        }
    }
}

/// Registers the handler that shuts the gate. A handler that is registered later runs earlier, so
/// this is called again after each call in which a library may register handlers of its own.
#[cfg(unix)]
pub(super) fn shut_at_exit() {
    // SAFETY: `shut` waits for each thread that is counted, and `enter` counts or refuses.
    unsafe { host_function::set_gate(GATE) };
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            safe fn on_exit(
                handler: extern "C" fn(libc::c_int, *mut libc::c_void),
                argument: *mut libc::c_void,
            ) -> libc::c_int;
        }
        extern "C" fn handler(status: libc::c_int, _: *mut libc::c_void) {
            shut(status);
        }
        on_exit(handler, std::ptr::null_mut());
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    {
        extern "C" fn handler() {
            // `atexit` does not tell the status.
            shut(1);
        }
        // SAFETY: the handler is a function, and lives for ever.
        unsafe { libc::atexit(handler) };
    }
}

#[cfg(not(unix))]
pub(super) fn shut_at_exit() {}

/// Shuts the gate, and waits until no other thread is inside.
#[cfg(unix)]
fn shut(status: libc::c_int) {
    // A child of `fork` has none of the threads counted.
    if !loader::is_this_process() {
        return;
    }
    let was = loader::shut();
    if host_function::is_inside() {
        end_at_once(status, "a host function ended the process");
    }
    let is_ordered = match was {
        State::OPEN => membarrier::execute(),
        _ => {
            fence(Ordering::SeqCst);
            true
        }
    };
    let began = std::time::Instant::now();
    let own = SLOT.get();
    // A closure that reads managed memory ends the process. Its other threads may read too.
    if own.is_some_and(|own| own.calls.load(Ordering::Relaxed) > 0) {
        end_at_once(status, "a closure with managed memory ended the process");
    }
    let others = || slots().filter(|slot| !own.is_some_and(|own| std::ptr::eq(own, *slot)));
    while !is_ordered || others().any(|slot| slot.calls.load(Ordering::Acquire) > 0) {
        if !is_ordered || began.elapsed() > PATIENCE {
            end_at_once(
                status,
                "another thread waits inside the CUDA driver, or a host function runs",
            );
        }
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

#[cfg(unix)]
#[cold]
fn end_at_once(status: libc::c_int, why: &str) -> ! {
    // `eprintln` would panic where standard error is closed.
    let text = format!("cuda-rt: the process ends without the remaining exit handlers, because {why}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    // SAFETY: the call ends the process, and runs nothing of it.
    unsafe { libc::_exit(status) }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Output};
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use super::*;

    const VARIABLE: &str = "CUDA_RT_TEST_PROCESS_END";

    /// Runs the test of this name once more, in a process of its own.
    fn child(test: &str) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args([&format!("process_end::tests::{test}"), "--exact", "--nocapture"])
            .env(VARIABLE, test)
            // The process ends while threads run, or after a fork. The leak sanitizer would call
            // what their stacks refer to lost.
            .env("LSAN_OPTIONS", "detect_leaks=0")
            .output()
            .unwrap()
    }

    fn is_child() -> bool {
        std::env::var_os(VARIABLE).is_some()
    }

    /// Whether the library that these tests imagine has destroyed its state.
    static IS_DESTROYED: AtomicBool = AtomicBool::new(false);

    /// The exit handler of the library.
    extern "C" fn destroy() {
        IS_DESTROYED.store(true, Ordering::SeqCst);
        println!("destroyed");
        std::thread::sleep(Duration::from_millis(20));
    }

    fn load_library() {
        // SAFETY: the handler is a function, and lives for ever.
        assert_eq!(unsafe { libc::atexit(destroy) }, 0);
        loader::begin().unwrap();
        shut_at_exit();
    }

    /// A call of the library. Returns whether it was made.
    fn call() -> bool {
        let Ok(_inside) = enter() else { return false };
        for _ in 0..100 {
            if IS_DESTROYED.load(Ordering::SeqCst) {
                std::process::abort();
            }
        }
        true
    }

    #[test]
    fn no_call_is_made_or_goes_on_while_a_library_is_destroyed() {
        const NAME: &str = "no_call_is_made_or_goes_on_while_a_library_is_destroyed";
        if is_child() {
            load_library();
            static CALLS: AtomicUsize = AtomicUsize::new(0);
            for _ in 0..4 {
                std::thread::spawn(|| {
                    loop {
                        CALLS.fetch_add(usize::from(call()), Ordering::Relaxed);
                    }
                });
            }
            while CALLS.load(Ordering::Relaxed) < 1000 {
                std::thread::yield_now();
            }
            std::process::exit(7);
        }
        for _ in 0..20 {
            let ended = child(NAME);
            assert_eq!(ended.status.code(), Some(7), "{ended:?}");
            assert!(
                String::from_utf8_lossy(&ended.stdout).contains("destroyed"),
                "{ended:?}"
            );
        }
    }

    #[test]
    fn a_call_that_does_not_return_ends_the_process_at_once() {
        const NAME: &str = "a_call_that_does_not_return_ends_the_process_at_once";
        if is_child() {
            load_library();
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let _inside = enter();
                sender.send(()).unwrap();
                std::thread::sleep(Duration::from_secs(60));
            });
            receiver.recv().unwrap();
            std::process::exit(7);
        }
        let began = Instant::now();
        let ended = child(NAME);
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        assert!(began.elapsed() >= PATIENCE && began.elapsed() < 10 * PATIENCE);
        assert!(
            !String::from_utf8_lossy(&ended.stdout).contains("destroyed"),
            "{ended:?}"
        );
        assert!(String::from_utf8_lossy(&ended.stderr).contains("waits inside the CUDA driver"));
    }

    /// The end of the process waits for the user's part of a host function, and runs no part that
    /// begins later.
    #[test]
    fn the_end_waits_for_a_host_function_and_runs_no_later_one() {
        const NAME: &str = "the_end_waits_for_a_host_function_and_runs_no_later_one";
        if is_child() {
            // The library's handlers run in the order 2, 1.
            extern "C" fn later() {
                let ran = std::thread::spawn(|| host_function::inside(|| println!("a later part ran")));
                assert_eq!(ran.join().unwrap(), None);
            }
            // SAFETY: the handler is a function, and lives for ever.
            assert_eq!(unsafe { libc::atexit(later) }, 0);
            load_library();
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                host_function::inside(|| {
                    sender.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(100));
                    assert!(!IS_DESTROYED.load(Ordering::SeqCst));
                    println!("the part is over");
                })
            });
            receiver.recv().unwrap();
            std::process::exit(7);
        }
        let ended = child(NAME);
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        let printed = String::from_utf8_lossy(&ended.stdout);
        let over = printed.find("the part is over").expect("the end waits");
        assert!(
            over < printed.find("destroyed").expect("the handlers run"),
            "{ended:?}"
        );
        assert!(!printed.contains("a later part"), "{ended:?}");
    }

    #[test]
    fn a_host_function_that_ends_the_process_runs_no_handler_of_the_library() {
        const NAME: &str = "a_host_function_that_ends_the_process_runs_no_handler_of_the_library";
        if is_child() {
            load_library();
            std::thread::spawn(|| host_function::inside(|| std::process::exit(7)));
            std::thread::sleep(Duration::from_secs(60));
        }
        let ended = child(NAME);
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        assert!(
            !String::from_utf8_lossy(&ended.stdout).contains("destroyed"),
            "{ended:?}"
        );
        assert!(String::from_utf8_lossy(&ended.stderr).contains("a host function ended"));
    }

    /// The handler runs inside of a call of its own thread only if a closure, which the call runs,
    /// ends the process. Here the thread's slot is not given back before, because the destructors
    /// of thread-locals have begun.
    #[test]
    fn a_call_whose_closure_ends_the_process_runs_no_handler_of_the_library() {
        const NAME: &str = "a_call_whose_closure_ends_the_process_runs_no_handler_of_the_library";
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                let _inside = enter().expect("the gate is open");
                std::process::exit(7);
            }
        }
        thread_local!(static LATE: Late = const { Late });
        if is_child() {
            load_library();
            std::thread::spawn(|| {
                // Registered first, so dropped behind the owner of the slot.
                LATE.with(|_| ());
                drop(enter());
            });
            std::thread::sleep(Duration::from_secs(60));
        }
        let ended = child(NAME);
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        assert!(
            !String::from_utf8_lossy(&ended.stdout).contains("destroyed"),
            "{ended:?}"
        );
        assert!(String::from_utf8_lossy(&ended.stderr).contains("a closure with managed memory"));
    }

    #[test]
    fn a_forked_child_ends_without_the_threads_of_its_parent() {
        const NAME: &str = "a_forked_child_ends_without_the_threads_of_its_parent";
        if is_child() {
            load_library();
            let (enters, entered) = std::sync::mpsc::channel();
            let (leave, may_leave) = std::sync::mpsc::channel::<()>();
            std::thread::spawn(move || {
                let inside = enter();
                enters.send(()).unwrap();
                let _ = may_leave.recv();
                drop(inside);
            });
            entered.recv().unwrap();
            // SAFETY: the child only calls `exit`.
            let process = unsafe { libc::fork() };
            if process == 0 {
                std::process::exit(3);
            }
            let mut status = 0;
            // SAFETY: the pointer is to a live int.
            assert_eq!(unsafe { libc::waitpid(process, &mut status, 0) }, process);
            assert_eq!(libc::WEXITSTATUS(status), 3);
            drop(leave);
            std::process::exit(7);
        }
        let ended = child(NAME);
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        // The child would say that it waited for the thread in vain.
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!said.contains("exit handlers"), "{ended:?}");
    }

    #[test]
    fn threads_that_end_leave_their_slots_to_others() {
        let call_in_a_destructor = || {
            struct Late;
            impl Drop for Late {
                fn drop(&mut self) {
                    drop(enter());
                }
            }
            thread_local!(static LATE: Late = const { Late });
            LATE.with(|_| drop(enter()));
        };
        let before = slots().count();
        for _ in 0..100 {
            std::thread::spawn(|| drop(enter())).join().unwrap();
        }
        let after = slots().count();
        assert!(after <= before + 20, "{before} slots, and then {after}");
        std::thread::spawn(call_in_a_destructor).join().unwrap();
    }
}
