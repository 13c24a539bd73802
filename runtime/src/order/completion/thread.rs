//! A thread of a device: started with the first use, left behind by a fork, ended with the device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use cuda_rt_driver::door::message as panic_message;

/// The way to a thread, which runs while anyone has a sender to it.
pub(super) struct Thread<T>(Mutex<State<T>>);

enum State<T> {
    NotStarted,
    Started(Started<T>),
    /// The device is gone: a thread is started for each sender, and not kept.
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
    /// A sender to the thread, which `start` starts if there is none; kept for others while the
    /// device is there.
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

    /// Lets the thread end once no one else has a sender.
    pub(super) fn close(&self) {
        let before = std::mem::replace(&mut *self.lock(), State::Closed);
        // With the lock free: what was not received is dropped, with code of others.
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Whole after any panic: it is assigned or not.
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

/// A sender to a thread, and the process that the thread is of.
struct Started<T> {
    sender: Sender<T>,
    process: u32,
}

impl<T> Started<T> {
    fn new(sender: Sender<T>) -> Self {
        let process = std::process::id();
        Self { sender, process }
    }

    fn sender(&self) -> io::Result<Sender<T>> {
        check_process(self.process)?;
        Ok(self.sender.clone())
    }
}

/// An error in a process that was forked from the one of this number.
pub(super) fn check_process(process: u32) -> io::Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "this process was forked, and the device's threads stayed in its parent, process {process}; open the device after `fork`"
    )))
}

/// Runs code of others, or a driver's, on a thread of ours: the panic hook has reported what it
/// panics with.
pub(super) fn contain(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        // Drops no code of others, which may panic again.
        panic_message(payload);
    }
}
