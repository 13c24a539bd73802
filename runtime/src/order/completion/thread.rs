//! A thread of a device. It starts with the first use, is absent in a forked child, and ends with
//! the device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use cuda_rt_driver::call_lock::message as panic_message;
use cuda_rt_driver::process::{Process, without_children};

/// The handle of a thread, which runs while a sender to it exists.
pub(super) struct Thread<T>(Mutex<State<T>>);

enum State<T> {
    NotStarted,
    Started(Started<T>),
    /// The device is gone: each sender gets a new thread, which is not kept.
    Closed,
}

impl<T> Default for Thread<T> {
    fn default() -> Self {
        Self(Mutex::new(State::NotStarted))
    }
}

impl<T> fmt::Debug for Thread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.lock() {
            State::NotStarted => "not started",
            State::Started(_) => "started",
            State::Closed => "closed",
        };
        f.debug_tuple("Thread").field(&state).finish()
    }
}

impl<T> Thread<T> {
    /// A sender to the thread. If there is no thread, `start` starts one, which is kept while the
    /// device exists.
    pub(super) fn sender(&self, start: impl FnOnce() -> io::Result<Sender<T>>) -> io::Result<Sender<T>> {
        let mut state = self.lock();
        if let State::Started(started) = &*state {
            return started.sender();
        }
        let sender = start()?;
        if matches!(*state, State::NotStarted) {
            *state = State::Started(Started::new(sender.clone()));
        }
        Ok(sender)
    }

    /// Lets the thread end once no other sender exists.
    pub(super) fn close(&self) {
        let before = std::mem::replace(&mut *self.lock(), State::Closed);
        // Outside the lock: this may drop jobs that were never received, and so run code of users.
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // The state is consistent after any panic: it is set by one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl<T> Thread<T> {
    /// A thread that has ended, with all its receivers.
    pub(super) fn ended() -> Self {
        let (sender, _) = std::sync::mpsc::channel();
        Self(Mutex::new(State::Started(Started::new(sender))))
    }

    /// Whether no lock is held.
    pub(super) fn is_free(&self) -> bool {
        self.0.try_lock().is_ok()
    }
}

/// A sender to a thread, and the process of the thread.
struct Started<T> {
    sender: Sender<T>,
    process: Process,
}

impl<T> Started<T> {
    fn new(sender: Sender<T>) -> Self {
        let process = Process::current();
        Self { sender, process }
    }

    fn sender(&self) -> io::Result<Sender<T>> {
        check_process(self.process)?;
        Ok(self.sender.clone())
    }
}

/// Returns an error if this process is not `process`, but was forked from it.
pub(super) fn check_process(process: Process) -> io::Result<()> {
    if process.is_current() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "this process was forked, and the device's threads stayed in its parent, process {}; open the device after `fork`",
        process.id()
    )))
}

/// Runs code of a user or of a driver on a thread of this crate, and catches a panic. The panic
/// hook has already reported it. A child of `fork` does not leave `body`: it would go on with what
/// other users gave to its parent's thread, which may borrow from threads that the child lacks.
pub(super) fn contain(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| without_children(body))) {
        // `panic_message` does not run the payload's drop, which may panic again.
        panic_message(payload);
    }
}
