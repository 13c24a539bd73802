//! What a capture is made of, call by call; and a second run of the same calls, noted instead of
//! made.
//!
//! A captured graph may be updated by running the body of its capture again. Most of the time only
//! a scalar or an address of a launch is another one, and then the graph's nodes can be changed one
//! by one ([`Graphs::set_launch`](cuda_rt_driver::Graphs::set_launch)), with no capture at all. The
//! tape finds out: a *dry run* runs the body with nothing enqueued, and its calls are compared with
//! those that the graph was captured from.

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
/// TAPE-1. No parameter of a launch that is not `padded` has padding:
/// [`Stream::__launch`](crate::Stream::__launch) asks for that.
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
    /// Those of the run in progress.
    run: Run,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Calls are passed on.
    #[default]
    Off,
    /// Calls are passed on, and noted.
    Capture,
    /// Calls are noted.
    DryRun,
}

#[derive(Debug, Default)]
struct Run {
    entries: Vec<Entry>,
    /// Streams in the order in which they were first used.
    streams: Vec<RawStream>,
    /// The latest record of each event, by its place among `entries`.
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

    /// A thread that panicked in here, which none should, left a run that is thrown away.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes calls on and notes them.
    pub(crate) fn capture(&self) -> Logging<'_> {
        self.start(Mode::Capture)
    }

    /// Notes calls, and makes none.
    pub(crate) fn dry_run(&self) -> Logging<'_> {
        self.start(Mode::DryRun)
    }

    fn start(&self, mode: Mode) -> Logging<'_> {
        let mut state = self.lock();
        state.mode = mode;
        state.run = Run::default();
        Logging(self)
    }

    /// The graph was captured from these calls.
    pub(crate) fn captured(&self, entries: Entries) {
        self.lock().captured = entries;
    }

    /// Takes over what the graph of another tape was captured from.
    pub(crate) fn continue_from(&self, other: &Self) {
        self.captured(std::mem::take(&mut other.lock().captured));
    }

    /// Compares a second capture with the first, before the graph is updated to it.
    pub(crate) fn compare(&self, entries: &Entries) -> Result<(), Difference> {
        self.lock().captured.changes(entries).map(drop)
    }

    /// The graph was updated to these calls, a second capture that compares.
    pub(crate) fn updated(&self, mut entries: Entries) {
        let mut state = self.lock();
        entries.take_nodes(&state.captured);
        state.captured = entries;
    }
}

/// Notes calls until it is dropped.
#[must_use = "dropping it stops the notes"]
pub(crate) struct Logging<'a>(&'a CaptureLog);

impl Logging<'_> {
    /// What was noted so far, and no more.
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
