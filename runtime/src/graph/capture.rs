//! One capture: its streams, and the graph or update that it becomes.

use std::any::TypeId;
use std::sync::Arc;

use super::captured::Captured;
use super::held::Held;
use crate::device::core::DeviceCore;
use crate::error::{During, Result};
use crate::graph::capture_log::{CaptureLog, Entries};
use crate::memory::Bundle;
use crate::order::host_task::HostTask;
use crate::order::stream_ref::StreamRef;
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::{DriverResult, RawGraph};

/// The place of one graph's captures: a device core with streams of its own, and the log of the
/// captured calls.
///
/// # Invariants
/// SITE-1. The core names its first stream by `key`, and captures are of tags with this key. So a
/// fork for the capture's own tag is the first stream itself.
#[derive(Debug)]
pub(super) struct Site {
    core: Arc<DeviceCore>,
    log: Arc<CaptureLog>,
    key: Option<TypeId>,
}

impl Site {
    pub(super) fn new<S: StreamTag>(stream: &Stream<S>) -> DriverResult<Self> {
        let log = CaptureLog::new(stream.core().shared_driver());
        let core = stream.core().for_capture(Arc::<CaptureLog>::clone(&log))?;
        let key = S::key();
        if let Some(key) = key {
            core.name_stream(key, core.stream_for_frees());
        }
        Ok(Self { core, log, key })
    }

    /// Whether captures of `S` may use this place. A kept graph is lent under any tag of its
    /// stream, and these have different keys (SITE-1).
    pub(super) fn is_for<S: StreamTag>(&self) -> bool {
        self.key == S::key()
    }

    pub(super) fn core(&self) -> &DeviceCore {
        &self.core
    }

    pub(super) fn log(&self) -> &CaptureLog {
        &self.log
    }

    fn origin(&self) -> StreamRef {
        self.core.stream_for_frees()
    }

    fn run<R: Bundle, S: StreamTag>(
        &self,
        held: &mut Held<R, S>,
        body: impl for<'g> FnOnce(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> Result<()> {
        debug_assert!(self.is_for::<S>(), "SITE-1");
        let stream = Stream::from_parts(self.origin(), Arc::clone(&self.core));
        // SAFETY: the graph owns the bundle as long as it can be launched, so the memory is live at
        // each launch. Launches are in the order of `S`. The views are branded for this call, so
        // nothing uses them outside the capture.
        let views = unsafe { held.views() };
        body(&stream, views)
    }

    /// Captures the work of `body`. `end` gets the capture and its calls, and makes a graph or an
    /// update of them. Also returns the host functions, which the graph calls from then on.
    pub(super) fn capture<R: Bundle, S: StreamTag, T>(
        &self,
        held: &mut Held<R, S>,
        body: impl for<'g> FnOnce(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
        during: &'static str,
        end: impl FnOnce(Recording<'_>, Entries) -> Result<T>,
    ) -> Result<(T, Vec<Arc<HostTask>>)> {
        // Host functions of a capture that failed: no graph calls them.
        drop(self.core.take_host_tasks());
        drop(self.core.take_modules());
        let noting = self.log.capture();
        // SAFETY: the core keeps the stream (CORE-1), which was created for captures: nothing else
        // can name it.
        let begun = |origin| unsafe { self.core.driver().begin_capture(origin) };
        self.origin().ask(begun).during(during)?;
        let recording = Recording {
            core: &self.core,
            origin: self.origin(),
            open: true,
        };
        self.run(held, body)?;
        recording.join().during(during)?;
        let made = end(recording, noting.finish())?;
        Ok((made, self.core.take_host_tasks()))
    }

    /// Dry run: logs the calls that `body` would make, and makes no call. Also returns `body`'s
    /// result.
    pub(super) fn dry_run<R: Bundle, S: StreamTag>(
        &self,
        held: &mut Held<R, S>,
        body: impl for<'g> FnOnce(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> (Entries, Result<()>) {
        let noting = self.log.dry_run();
        let done = self.run(held, body).and_then(|()| {
            self.core
                .join_all(self.origin())
                .and_then(|()| self.core.check().map_err(|unordered| unordered.cause))
                .during("Graph::update")
        });
        // No driver has seen the host functions of a dry run, and its launches.
        drop(self.core.take_host_tasks());
        drop(self.core.take_modules());
        (noting.finish(), done)
    }
}

/// A capture in progress. If an error or a panic drops it, the capture is ended and thrown away.
pub(super) struct Recording<'a> {
    core: &'a DeviceCore,
    origin: StreamRef,
    open: bool,
}

impl Recording<'_> {
    /// Makes the capture's first stream wait for every forked stream.
    fn join(&self) -> DriverResult<()> {
        self.core.join_all(self.origin)?;
        self.core.check().map_err(|unordered| unordered.cause)
    }

    /// Ends the capture as a graph of its own.
    pub(super) fn end(mut self) -> DriverResult<RawGraph> {
        self.open = false;
        // SAFETY: the capture was begun on this stream, and ends once.
        self.origin
            .ask(|origin| unsafe { self.core.driver().end_capture(origin) })
    }

    /// Ends the capture as an update of `graph`.
    ///
    /// # Safety
    /// The capture made the same calls as the capture of `graph`, and they allocate nothing. The
    /// graph is live, and no other thread uses it now.
    pub(super) unsafe fn update(mut self, graph: RawGraph) -> DriverResult<()> {
        self.open = false;
        // SAFETY: the capture was begun on this stream, and ends once: this consumes it. `graph`
        // satisfies the call's demands by this function's contract.
        self.origin
            .ask(|origin| unsafe { self.core.driver().update_graph(graph, origin) })
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        // A fork that was not joined makes the end fail, which ends the capture as well.
        let _ = self.join();
        // SAFETY: the capture was begun on this stream, and ends once.
        let ended = self
            .origin
            .ask(|origin| unsafe { self.core.driver().end_capture(origin) });
        if let Ok(graph) = ended {
            // SAFETY: the graph was made just now, and never launched.
            let _ = unsafe { self.core.driver().destroy_graph(graph) };
        }
    }
}
