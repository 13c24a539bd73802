//! [`CaptureLog`]: a driver that logs the calls of a capture, and can log a second run without
//! making its calls.
//!
//! A captured graph may be updated by running the body of its capture again. Usually only a scalar
//! or an address of a launch has changed. The graph's nodes can then be changed one by one
//! ([`Graphs::set_launch`](cuda_rt_driver::Graphs::set_launch)), without a capture. The log decides
//! this: a *dry run* runs the body with nothing enqueued, and compares its calls with the calls of
//! the capture.

mod apply;
mod calls;
mod changes;
mod entries;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use apply::{DryRun, Unchanged};
pub(crate) use changes::Difference;
pub(crate) use entries::Entries;
use entries::Entry;

use cuda_rt_driver::{Driver, RawEvent, RawStream};

/// The driver of a capture's streams.
///
/// # Invariants
/// CAPTURE-LOG-1. Parameters of a launch have no padding, unless the launch is `padded`:
/// [`Stream::__launch`](crate::Stream::__launch) demands that.
#[derive(Debug)]
pub(crate) struct CaptureLog {
    inner: Arc<dyn Driver>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    /// The calls that the graph was captured or last updated from.
    captured: Entries,
    /// The calls of the run in progress.
    run: Run,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Calls are passed on.
    #[default]
    Off,
    /// Calls are passed on and logged.
    Capture,
    /// Calls are logged and not made.
    DryRun,
}

#[derive(Debug, Default)]
struct Run {
    entries: Vec<Entry>,
    /// Streams in the order in which they were first used.
    streams: Vec<RawStream>,
    /// The latest record of each event, as an index into `entries`.
    records: HashMap<RawEvent, usize>,
}

impl Run {
    fn stream(&mut self, stream: RawStream) -> usize {
        let known = self.streams.iter().position(|known| *known == stream);
        known.unwrap_or_else(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        })
    }
}

impl CaptureLog {
    pub(crate) fn new(inner: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            state: Mutex::default(),
        })
    }

    /// If a thread panicked under the lock, which should not happen, its run is thrown away.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes calls on and logs them, until the result is dropped.
    pub(crate) fn capture(&self) -> Logging<'_> {
        self.start(Mode::Capture)
    }

    /// Logs calls without making them, until the result is dropped.
    pub(crate) fn dry_run(&self) -> Logging<'_> {
        self.start(Mode::DryRun)
    }

    fn start(&self, mode: Mode) -> Logging<'_> {
        let mut state = self.lock();
        state.mode = mode;
        state.run = Run::default();
        Logging(self)
    }

    /// Notes that the graph was captured from these calls.
    pub(crate) fn captured(&self, entries: Entries) {
        self.lock().captured = entries;
    }

    /// Takes over the calls that another log's graph was captured from.
    pub(crate) fn continue_from(&self, other: &Self) {
        self.captured(std::mem::take(&mut other.lock().captured));
    }

    /// Compares a second capture with the first, before the graph is updated to it.
    pub(crate) fn compare(&self, entries: &Entries) -> Result<(), Difference> {
        self.lock().captured.changes(entries).map(drop)
    }

    /// Notes that the graph was updated to these calls, which [`compare`](Self::compare) accepted.
    pub(crate) fn updated(&self, mut entries: Entries) {
        let mut state = self.lock();
        entries.take_nodes(&state.captured);
        state.captured = entries;
    }
}

/// Logs calls until it is dropped.
#[must_use = "dropping it stops the notes"]
pub(crate) struct Logging<'a>(&'a CaptureLog);

impl Logging<'_> {
    /// Ends the log and returns the calls logged so far.
    pub(crate) fn finish(self) -> Entries {
        let run = std::mem::take(&mut self.0.lock().run);
        Entries(run.entries)
    }
}

impl Drop for Logging<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.mode = Mode::Off;
        state.run = Run::default();
    }
}
