//! The thread that runs closures, one after another, in the order in which what they wait for was
//! done.
//!
//! Not the thread that asks events: a closure may block, or wait for another handoff, and wake-ups
//! go on meanwhile.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{Started, contain};
use crate::order::event_pool::EventPool;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The way to the thread, which runs while anyone has a sender.
#[derive(Debug, Default)]
pub(super) struct Closures(Mutex<Option<Started<Job>>>);

impl Closures {
    /// A sender to the thread, which is started if there is none; kept for others while the device
    /// is there.
    pub(super) fn sender(&self, pool: &EventPool) -> io::Result<Sender<Job>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = &*kept {
            return started.sender();
        }
        let (sender, jobs) = channel::<Job>();
        thread::Builder::new()
            .name("cuda-rt-done".into())
            .spawn(move || jobs.into_iter().for_each(contain))?;
        if !pool.is_closed() {
            *kept = Some(Started::new(sender.clone()));
        }
        Ok(sender)
    }

    pub(super) fn close(&self) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // With the lock free: jobs that were not received are dropped, with code of others.
        drop(kept);
    }
}
