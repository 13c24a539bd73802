//! Captured work, replayed.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::core::DeviceCore;
use crate::driver::RawGraph;
use crate::error::{During, Result};
use crate::fence::StreamAt;
use crate::memory::{OwnedBy, Resource};
use crate::place::{DeviceTag, Live, NamedStream, Place, StreamTag};
use crate::stream::Stream;
use crate::timeline::Kind;

/// The device inside a capture of a stream of `D`. Not [`Live`]: nothing inside can be waited for, shared or adopted.
pub struct InGraph<'g, D>(PhantomData<fn(&'g D) -> &'g D>);
// SAFETY: `'g` is fresh at each capture, and a capture has a device core of its own.
unsafe impl<D: DeviceTag> DeviceTag for InGraph<'_, D> {}

/// A stream inside a capture, standing for `S`.
///
/// Its device is another one than that of `S`, so that nothing of the outside can be named inside, and nothing
/// made inside leaves (H25).
pub struct Captured<'g, S>(PhantomData<fn(&'g S) -> &'g S>);
// SAFETY: by definition.
unsafe impl<'g, S: StreamTag> Place for Captured<'g, S> {
    type Device = InGraph<'g, S::Device>;
}
// SAFETY: the capture's core has one stream for each key, and the one that it begins on is entered under the key of `S`, if that has
// one; a tag that has none cannot be forked to.
unsafe impl<S: StreamTag> StreamTag for Captured<'_, S> {}

/// Work of stream `S` that was captured, with all the memory that it uses (`CUgraphExec`).
///
/// The graph owns the bundle given to [`Stream::capture`]: while it exists no one else can free, move or write what it
/// replays (H25). Between launches [`views`](Self::views) reaches it, in the order of `S`.
///
/// # Invariants
/// G1. `bundle` is owned by `S` at `stream`: every use is in that stream's order.
/// G2. `raw` is live, and uses no memory but the bundle's and its own.
///
/// `&mut self` on every method, and `!Sync`: two launches of one graph at once would race with themselves.
pub struct Graph<R: Resource, S: StreamTag> {
    bundle: ManuallyDrop<R>,
    /// `None` until the capture has ended.
    raw: Option<RawGraph>,
    stream: Stream<S>,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl<R: Resource, S: StreamTag> fmt::Debug for Graph<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("raw", &self.raw)
            .finish_non_exhaustive()
    }
}

/// Ends a capture that was not ended, after an error or a panic, and throws away what it recorded.
struct Recording<'a> {
    core: &'a DeviceCore,
    origin: StreamAt,
    open: bool,
}

impl Recording<'_> {
    fn end(&mut self) -> Result<RawGraph> {
        self.open = false;
        // Streams forked inside join here, as if each had been acquired from last.
        let ordered = self.core.join_all(self.origin).and_then(|()| self.core.check());
        // SAFETY: begun on this stream, and ended once.
        let ended = unsafe { self.core.driver().end_capture(self.origin.raw) };
        // What could not be ordered comes first: the capture's own error only follows from it.
        let Err(source) = ordered else {
            return ended.during("Stream::capture");
        };
        if let Ok(graph) = ended {
            // SAFETY: live and never launched.
            let _ = unsafe { self.core.driver().destroy_graph(graph) };
        }
        Err(source).during("Stream::capture")
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if self.open
            && let Ok(graph) = self.end()
        {
            // SAFETY: live and never launched.
            let _ = unsafe { self.core.driver().destroy_graph(graph) };
        }
    }
}

impl<S: StreamTag> Stream<S> {
    /// Records the work that `body` gives to the stream, instead of running it, into a graph
    /// (`cuStreamBeginCapture` in relaxed mode, `cuStreamEndCapture`, `cuGraphInstantiate`). Blocks for as long as CUDA takes
    /// to build the graph.
    ///
    /// `body` gets a stream of its own, so that no other thread's work can land in the capture, and views of `bundle`,
    /// which the graph then owns. What it allocates is freed at each launch.
    ///
    /// # Hazards prevented
    /// H25, H43: buffers, handoffs and streams of the outside are of another device, and those of the inside cannot leave.
    ///
    /// # Errors
    /// Those of `body`, and [`Error::Driver`](crate::Error::Driver) where a call cannot be captured. The bundle is then dropped in this stream's order;
    /// nothing has run.
    pub fn capture<A: OwnedBy<S>>(
        &self,
        bundle: A,
        body: impl for<'g> FnOnce(
            &'g Stream<Captured<'g, S>>,
            <A::Idle as Resource>::View<'g, Captured<'g, S>>,
        ) -> Result<()>,
    ) -> Result<Graph<A::Idle, S>>
    where
        S::Device: Live,
    {
        const DURING: &str = "Stream::capture";
        let core = self.core().for_capture().during(DURING)?;
        let origin = core.reaper();
        if let Some(key) = S::key() {
            core.name_stream(key, origin);
        }
        // Made first, so that it is dropped last: the memory outlives what was recorded of it.
        // SAFETY: it goes into a graph of `S`, which gives it back to `S` when dropped; its uses are all in this stream's
        // order.
        let bundle = unsafe { bundle.detach() };
        let mut graph = Graph {
            bundle: ManuallyDrop::new(bundle),
            raw: None,
            stream: self.clone(),
            not_sync: PhantomData,
        };
        // SAFETY: a stream made for this capture, which nothing else can name.
        unsafe { core.driver().begin_capture(origin.raw) }.during(DURING)?;
        let mut recording = Recording {
            core: &core,
            origin,
            open: true,
        };
        let stream = Stream::from_parts(origin, Arc::clone(&core));
        // SAFETY: the graph owns the bundle, so it is live at each launch; launches are ordered in `S`, and the views, branded for
        // this call, are not used outside the capture.
        let views = unsafe { graph.bundle.view() };
        body(&stream, views)?;
        graph.raw = Some(recording.end()?);
        drop(recording);
        Ok(graph)
    }
}

impl<'g, S: StreamTag> Stream<Captured<'g, S>> {
    /// Another stream of the same capture, standing for `N`; its work comes after what this stream holds now. Asked for
    /// twice, it is one stream. What it still holds at the end of the capture is joined.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn fork<N: NamedStream<Device = S::Device>>(&self) -> Result<Stream<Captured<'g, N>>> {
        const DURING: &str = "Stream::fork";
        let at = self
            .core()
            .named_stream(TypeId::of::<N::Key>(), N::PRIORITY)
            .during(DURING)?;
        let here = self.core().events().record(self.at(), false).during(DURING)?;
        here.wait_on(at).during(DURING)?;
        Ok(Stream::from_parts(at, Arc::clone(self.core())))
    }
}

impl<R: Resource, S: StreamTag> Graph<R, S> {
    /// Replays the captured work on its stream (`cuGraphLaunch`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn launch(&mut self, stream: &Stream<S>) -> Result<()> {
        let driver = stream.core().ordered().during("Graph::launch")?;
        // A graph that is handed out was built.
        let Some(raw) = self.raw else { return Ok(()) };
        stream
            .recorded(Kind::Graph, "graph", 0, || {
                // SAFETY: G1 and G2; `stream` is `S`, so the replay is ordered with every other use.
                unsafe { driver.launch_graph(raw, stream.at().raw) }
            })
            .during("Graph::launch")
    }

    /// Views of the bundle for work of `S` between launches.
    pub fn views(&mut self) -> R::View<'_, S> {
        // SAFETY: G1; borrowed uniquely, so no launch is enqueued while the views are there.
        unsafe { self.bundle.view() }
    }

    /// The bundle, on its stream; the graph is destroyed once its launches are done (`cuGraphExecDestroy`).
    pub fn into_inner(self) -> R::On<S> {
        let mut graph = ManuallyDrop::new(self);
        // SAFETY: the graph is not used or dropped after this.
        let owned = unsafe { graph.take() };
        // SAFETY: as above.
        unsafe { std::ptr::drop_in_place(&mut graph.stream) };
        owned
    }

    /// Destroys the graph and takes the bundle.
    ///
    /// # Safety
    /// Called once, and neither is used again.
    unsafe fn take(&mut self) -> R::On<S> {
        if let Some(raw) = self.raw {
            // SAFETY: G2; launches that are pending still run. An error leaks the graph.
            let _ = unsafe { self.stream.core().driver().destroy_graph(raw) };
        }
        // SAFETY: the caller does not use it again.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: G1.
        unsafe { bundle.attach(self.stream.at()) }
    }
}

impl<R: Resource, S: StreamTag> Drop for Graph<R, S> {
    fn drop(&mut self) {
        // SAFETY: this is the drop. The bundle is freed in its stream's order.
        drop(unsafe { self.take() });
    }
}
