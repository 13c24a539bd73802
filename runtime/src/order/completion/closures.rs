//! The thread that runs closures, one after another, in the order in which their waits ended.
//!
//! It is not the thread that queries events: a closure may block, or wait for another handoff, and
//! wake-ups must go on meanwhile.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::thread::{Thread, contain};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The handle of the thread.
#[derive(Debug, Default)]
pub(crate) struct Closures(Thread<Job>);

impl Closures {
    /// A sender to the thread, which is started if there is none.
    pub(crate) fn sender(&self) -> io::Result<Sender<Job>> {
        self.0.sender(|| {
            let (sender, jobs) = channel::<Job>();
            thread::Builder::new()
                .name("cuda-rt-done".into())
                .spawn(move || {
                    super::scope::mark_thread();
                    jobs.into_iter().for_each(contain);
                })?;
            Ok(sender)
        })
    }

    pub(super) fn close(&self) {
        self.0.close();
    }
}
