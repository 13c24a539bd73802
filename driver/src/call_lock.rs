//! A lock for a value that is never seen half-changed, even if user code runs under the lock.
//!
//! The simulated device and the checker run user code under their locks: a kernel's body, and the
//! panic hook. A panic in user code must not leave a half-made change for the next call to see. A
//! call made by user code must not wait for its own thread.
//!
//! # Invariants
//! CALL-LOCK-1. Nothing unwinds out of [`CallLock::enter`]. After a panic inside, no one sees the
//! value again.
//! CALL-LOCK-2. `holder` is the number of the thread that is inside, or 0.
//!
//! What may wait for another thread, or runs other code, is done outside of the locks, by
//! [`outside`]. Counterexample: a simulated kernel prints under the lock, and so waits for a thread
//! that has locked standard output. If that thread calls the device, both wait for ever.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};

use super::{DriverError, ErrorCode};
use crate::process::Process;

/// A value behind a lock; see the [module](self).
pub struct CallLock<T> {
    value: Mutex<T>,
    holder: AtomicUsize,
    /// The message of the panic that happened inside.
    panicked: OnceLock<String>,
    /// The process that made the lock.
    process: Process,
}

/// Why [`CallLock::enter`] did not run its closure to the end.
pub enum LockError {
    /// The calling thread is inside.
    Reentered,
    /// A panic happened inside, with this message.
    Panicked(String),
    /// The process was forked while another thread was inside, and that thread does not exist in
    /// the child.
    Forked,
}

impl<T> CallLock<T> {
    pub fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            holder: AtomicUsize::new(0),
            panicked: OnceLock::new(),
            process: Process::current(),
        }
    }

    /// Runs `body` on the value, with no other thread inside. A panic of `body` is reported by the
    /// panic hook, and withdraws the value for good.
    pub fn enter<R>(&self, body: impl FnOnce(&mut T) -> R) -> Result<R, LockError> {
        let this = this_thread();
        // A thread reads its own number only if it stored it: no ordering is needed.
        if self.holder.load(Ordering::Relaxed) == this {
            return Err(LockError::Reentered);
        }
        let locked = match self.value.try_lock() {
            Ok(value) => Ok(value),
            Err(TryLockError::WouldBlock) if !self.process.is_current() => {
                return Err(LockError::Forked);
            }
            Err(TryLockError::WouldBlock) => self.value.lock(),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
        };
        let _entered = Entered::new();
        let Ok(mut value) = locked else {
            return Err(self.note_panic("a thread panicked with the lock held".to_owned()));
        };
        if let Some(said) = self.panicked.get() {
            return Err(LockError::Panicked(said.clone()));
        }
        self.holder.store(this, Ordering::Relaxed);
        // CALL-LOCK-1: after a panic the value is not seen again.
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&mut value)));
        self.holder.store(0, Ordering::Relaxed);
        outcome.map_err(|payload| self.note_panic(message(payload)))
    }

    #[cold]
    fn note_panic(&self, said: String) -> LockError {
        LockError::Panicked(self.panicked.get_or_init(|| said).clone())
    }
}

impl<T> fmt::Debug for CallLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLock").finish_non_exhaustive()
    }
}

impl LockError {
    /// The error of `call`, which `what` (a device, a checker) could not take.
    #[cold]
    pub fn of_call(self, call: &'static str, what: &str) -> DriverError {
        match self {
            Self::Reentered => DriverError::with_detail(
                call,
                ErrorCode::NOT_PERMITTED,
                format!("called from inside a simulated kernel, or from the panic hook while {what} panics"),
            ),
            Self::Panicked(said) => {
                DriverError::with_detail(call, ErrorCode::UNKNOWN, format!("{what} panicked: {said}"))
            }
            Self::Forked => DriverError::with_detail(
                call,
                ErrorCode::NOT_INITIALIZED,
                format!(
                    "this process was forked while another thread of its parent used {what}; open the device after `fork`"
                ),
            ),
        }
    }
}

/// The message of a panic. A payload that is not text is leaked: its drop is user code, and must
/// not run here.
pub fn message(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<String>() {
        Ok(text) => return *text,
        Err(payload) => payload,
    };
    match payload.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(payload) => {
            std::mem::forget(payload);
            "a panic without a message".to_owned()
        }
    }
}

thread_local! {
    // The cell has no destructor, so it exists as long as its thread.
    /// The number of locks that this thread is inside.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread is inside any lock of this kind: a simulated device or a checker runs its
/// code.
pub fn is_inside() -> bool {
    INSIDE.get() > 0
}

/// Counts a lock that this thread is inside until it is dropped.
struct Entered;

impl Entered {
    fn new() -> Self {
        INSIDE.set(INSIDE.get() + 1);
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
        if INSIDE.get() == 0 && LATER.with(|later| !later.borrow().is_empty()) {
            run_later();
        }
    }
}

thread_local! {
    // It has no destructor, so it exists as long as its thread.
    /// What this thread does outside of all locks.
    static LATER: ManuallyDrop<RefCell<Vec<Box<dyn FnOnce()>>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Runs `then` where this thread is inside no lock of this kind: now, or as it leaves the outermost
/// lock. A panic of `then` is reported by the panic hook.
pub fn outside(then: impl FnOnce() + 'static) {
    LATER.with(|later| later.borrow_mut().push(Box::new(then)));
    if !is_inside() {
        run_later();
    }
}

#[cold]
fn run_later() {
    // Taken out first: what runs may enter a lock, and come here again.
    for then in LATER.with(|later| mem::take(&mut *later.borrow_mut())) {
        // CALL-LOCK-1: `enter` calls this as it returns.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(then)) {
            message(payload);
        }
    }
}

/// A number that tells running threads apart; never 0.
fn this_thread() -> usize {
    // The cell has no destructor, so it exists as long as its thread.
    thread_local!(static HERE: Cell<u8> = const { Cell::new(0) });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_whether_it_is_inside() {
        let (outer, inner) = (CallLock::new(()), CallLock::new(()));
        assert!(!is_inside());
        let seen = outer.enter(|()| {
            let before = is_inside();
            assert!(inner.enter(|()| panic!("inside")).is_err());
            (before, is_inside())
        });
        assert!(matches!(seen, Ok((true, true))));
        assert!(inner.enter(|()| ()).is_err() && !is_inside());
    }

    #[test]
    fn what_is_for_outside_runs_as_the_outermost_lock_is_left() {
        use std::rc::Rc;
        let (outer, inner) = (CallLock::new(()), CallLock::new(()));
        let seen: Rc<RefCell<Vec<(u32, bool)>>> = Rc::default();
        let note = |number| {
            let seen = Rc::clone(&seen);
            move || seen.borrow_mut().push((number, is_inside()))
        };
        outside(note(1));
        let entered = outer.enter(|()| {
            outside(note(2));
            let _ = inner.enter(|()| outside(note(3)));
            outside(|| panic!("outside"));
            outside(note(4));
            assert_eq!(*seen.borrow(), [(1, false)]);
        });
        assert!(entered.is_ok());
        assert_eq!(*seen.borrow(), [1, 2, 3, 4].map(|number| (number, false)));
        // The locks are free: another thread may enter them meanwhile.
        let (lock, free) = (std::sync::Arc::new(CallLock::new(())), Rc::new(Cell::new(false)));
        let (then, of) = (Rc::clone(&free), std::sync::Arc::clone(&lock));
        let _ = lock.enter(|()| {
            outside(move || {
                let other = std::thread::spawn(move || of.enter(|()| ()).is_ok());
                then.set(other.join().unwrap());
            });
        });
        assert!(free.get());
    }

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the drop of a payload");
        }
    }

    fn said<R>(entered: Result<R, LockError>) -> String {
        match entered {
            Err(LockError::Panicked(said)) => said,
            Err(LockError::Reentered | LockError::Forked) => panic!("nothing is inside"),
            Ok(_) => panic!("the value is available"),
        }
    }

    #[test]
    fn a_panic_withdraws_the_value_for_good_whatever_its_payload_does() {
        let (text, bomb) = (CallLock::new(1), CallLock::new(1));
        assert_eq!(said(text.enter(|_| panic!("one {}", "two"))), "one two");
        assert_eq!(said(text.enter(|value| *value)), "one two");
        let panicked = bomb.enter(|_| std::panic::panic_any(Bomb));
        assert_eq!(said(panicked), "a panic without a message");
        assert_eq!(said(bomb.enter(|value| *value)), "a panic without a message");
    }

    #[test]
    fn a_thread_that_is_inside_is_refused_and_another_waits() {
        let lock = CallLock::new(1);
        let inner = lock.enter(|_| matches!(lock.enter(|value| *value), Err(LockError::Reentered)));
        assert!(matches!(inner, Ok(true)));
        std::thread::scope(|scope| {
            let entered = lock.enter(|value| {
                *value = 2;
                let other = scope.spawn(|| lock.enter(|value| *value).ok());
                std::thread::sleep(std::time::Duration::from_millis(5));
                *value = 3;
                other
            });
            let Ok(other) = entered else {
                panic!("the value is available")
            };
            assert_eq!(other.join().unwrap(), Some(3));
        });
    }

    #[test]
    fn a_thread_that_unwinds_may_enter() {
        struct EntersWhenDropped<'a>(&'a CallLock<u32>);
        impl Drop for EntersWhenDropped<'_> {
            fn drop(&mut self) {
                let _ = self.0.enter(|value| *value += 1);
            }
        }
        let lock = CallLock::new(1);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _entering = EntersWhenDropped(&lock);
            panic!("of the test");
        }));
        assert!(unwound.is_err());
        assert_eq!(lock.enter(|value| *value).ok(), Some(2));
    }
}
