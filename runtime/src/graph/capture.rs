//! One capture: a stream that records, and what becomes of it.

use std::sync::Arc;

use super::captured::Captured;
use super::held::Held;
use crate::device::core::DeviceCore;
use crate::error::{During, Error, Result};
use crate::graph::capture_log::{CaptureLog, Entries};
use crate::memory::Bundle;
use crate::order::stream_ref::StreamRef;
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::{DriverResult, RawGraph};

/// Where captures of one graph take place: streams of their own, and the calls that were captured
/// there.
#[derive(Debug)]
pub(super) struct Site {
    core: Arc<DeviceCore>,
    tape: Arc<CaptureLog>,
}

impl Site {
    pub(super) fn new<S: StreamTag>(stream: &Stream<S>) -> DriverResult<Self> {
        let tape = CaptureLog::new(stream.core().shared_driver());
        let core = stream.core().for_capture(Arc::<CaptureLog>::clone(&tape))?;
        if let Some(key) = S::key() {
            core.name_stream(key, core.reaper());
        }
        Ok(Self { core, tape })
    }

    pub(super) fn core(&self) -> &DeviceCore {
        &self.core
    }

    pub(super) fn tape(&self) -> &CaptureLog {
        &self.tape
    }

    fn origin(&self) -> StreamRef {
        self.core.reaper()
    }

    fn run<R: Bundle, S: StreamTag>(
        &self,
        held: &mut Held<R, S>,
        body: impl for<'g> FnOnce(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> Result<()> {
        let stream = Stream::from_parts(self.origin(), Arc::clone(&self.core));
        // SAFETY: the graph owns the bundle while anything replays what uses it, so it is live at
        // each launch; launches are ordered in `S`, and the views, branded for this call, are not
        // used outside the capture.
        let views = unsafe { held.views() };
        body(&stream, views)
    }

    /// Captures what `body` does; `end` makes something of the capture, of which it gets the calls.
    pub(super) fn capture<R: Bundle, S: StreamTag, T>(
        &self,
        held: &mut Held<R, S>,
        body: impl for<'g> FnOnce(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
        during: &'static str,
        end: impl FnOnce(Recording<'_>, Entries) -> Result<T>,
    ) -> Result<T> {
        let noting = self.tape.capture();
        // SAFETY: a stream made for captures, which nothing else can name.
        unsafe { self.core.driver().begin_capture(self.origin().raw) }.during(during)?;
        let recording = Recording {
            core: &self.core,
            origin: self.origin(),
            open: true,
        };
        self.run(held, body)?;
        recording.join().during(during)?;
        end(recording, noting.finish())
    }

    /// The calls that `body` makes, of which none is made. Gives what it returned too.
    pub(super) fn dry_run<R: Bundle, S: StreamTag>(
        &self,
        held: &mut Held<R, S>,
        body: impl for<'g> FnOnce(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> (Entries, Result<()>) {
        let noting = self.tape.dry_run();
        let done = self.run(held, body).and_then(|()| {
            self.core
                .join_all(self.origin())
                .and_then(|()| self.core.check().map_err(|unordered| unordered.cause))
                .map_err(|source| Error::Driver {
                    during: "Graph::update",
                    source,
                })
        });
        (noting.finish(), done)
    }
}

/// Ends a capture that was not ended, after an error or a panic, and throws away what it recorded.
pub(super) struct Recording<'a> {
    core: &'a DeviceCore,
    origin: StreamRef,
    open: bool,
}

impl Recording<'_> {
    /// Streams forked inside join here, as if each had been acquired from last.
    fn join(&self) -> DriverResult<()> {
        self.core.join_all(self.origin)?;
        self.core.check().map_err(|unordered| unordered.cause)
    }

    /// The capture as a graph of its own.
    pub(super) fn end(mut self) -> DriverResult<RawGraph> {
        self.open = false;
        // SAFETY: begun on this stream, and ended once.
        unsafe { self.core.driver().end_capture(self.origin.raw) }
    }

    /// The capture as an update of `graph`.
    ///
    /// # Safety
    /// It was made by the calls that `graph` was captured from, which allocate nothing; the graph
    /// is live, and no other thread uses it now.
    pub(super) unsafe fn update(mut self, graph: RawGraph) -> DriverResult<()> {
        self.open = false;
        // SAFETY: begun on this stream, and ended once; the rest is the caller's.
        unsafe { self.core.driver().update_graph(graph, self.origin.raw) }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        // A fork that was not joined makes the end fail, which ends the capture as well.
        let _ = self.join();
        // SAFETY: begun on this stream, and ended once.
        if let Ok(graph) = unsafe { self.core.driver().end_capture(self.origin.raw) } {
            // SAFETY: live and never launched.
            let _ = unsafe { self.core.driver().destroy_graph(graph) };
        }
    }
}
