//! Captured work, replayed, and changed between replays.

mod capture;
mod capture_log;
mod captured;
mod held;
mod instance;

pub use captured::{Captured, InGraph};

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::{During, Refused, Result};
use crate::graph::held::Held;
use crate::graph::instance::Instance;
use crate::memory::{Bundle, OwnedBy};
use crate::stream::Stream;
use crate::tag::{Live, NamedStream, StreamTag};
use cuda_rt_driver::Kind;

/// Work of stream `S` that was captured, with all the memory that it uses (`CUgraphExec`).
///
/// The graph owns the bundle given to [`Stream::capture`]: while it exists no one else can free,
/// move or write what it replays (H25). Between launches [`views`](Self::views) reaches it, in the
/// order of `S`; [`update`](Self::update) changes scalars, and [`replace`](Self::replace) the
/// bundle, without a new instantiation.
///
/// `&mut self` on every method, and `!Sync`: two launches of one graph at once would race with
/// themselves.
///
/// # Invariants
/// GRAPH-1. `held` is the graph's bundle: every use is in the order of `S`.
/// GRAPH-2. `instance` uses no memory but the bundle's and its own.
pub struct Graph<R: Bundle, S: StreamTag> {
    // Dropped first: the memory outlives what was recorded of it.
    instance: Instance,
    held: Held<R, S>,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl<R: Bundle, S: StreamTag> fmt::Debug for Graph<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl<S: StreamTag> Stream<S> {
    /// Records the work that `body` gives to the stream, instead of running it, into a graph
    /// (`cuStreamBeginCapture` in relaxed mode, `cuStreamEndCapture`, `cuGraphInstantiate`). Blocks
    /// for as long as CUDA takes to build the graph.
    ///
    /// `body` gets a stream of its own, so that no other thread's work can land in the capture, and
    /// views of `bundle`, which the graph then owns. What it allocates is freed at each launch.
    ///
    /// # Hazards prevented
    /// H25, H43: buffers, handoffs and streams of the outside are of another device, and those of
    /// the inside cannot leave.
    ///
    /// # Errors
    /// Those of `body`, and [`Error::Driver`](crate::Error::Driver) where a call cannot be
    /// captured. The bundle is then dropped in this stream's order; nothing has run.
    pub fn capture<A: OwnedBy<S>>(
        &self,
        bundle: A,
        body: impl for<'g> FnOnce(
            &'g Stream<Captured<'g, S>>,
            <A::Idle as Bundle>::View<'g, Captured<'g, S>>,
        ) -> Result<()>,
    ) -> Result<Graph<A::Idle, S>>
    where
        S::Device: Live,
    {
        // SAFETY: owned by `S`, to which it is given back; its uses are all in this stream's order.
        let bundle = unsafe { bundle.detach() };
        // SAFETY: HELD-1, for that reason.
        let mut held = unsafe { Held::new(bundle, self) };
        let instance = Instance::capture(&mut held, body)?;
        Ok(Graph {
            instance,
            held,
            not_sync: PhantomData,
        })
    }
}

impl<'g, S: StreamTag> Stream<Captured<'g, S>> {
    /// Another stream of the same capture, standing for `N`; its work comes after what this stream
    /// holds now. Asked for twice, it is one stream. What it still holds at the end of the capture
    /// is joined.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn fork<N: NamedStream<Device = S::Device>>(&self) -> Result<Stream<Captured<'g, N>>> {
        const DURING: &str = "Stream::fork";
        let at = self
            .core()
            .named_stream(TypeId::of::<N::Key>(), N::PRIORITY)
            .during(DURING)?;
        self.record(DURING)?.wait_on(at).during(DURING)?;
        Ok(Stream::from_parts(at, Arc::clone(self.core())))
    }
}

impl<R: Bundle, S: StreamTag> Graph<R, S> {
    /// Replays the captured work on its stream (`cuGraphLaunch`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); also where an [update](Self::update) failed
    /// half-way and could not be taken back.
    #[track_caller]
    pub fn launch(&mut self, stream: &Stream<S>) -> Result<()> {
        let call = stream.call("Graph::launch");
        let raw = self.instance.raw().during(call.name())?;
        call.enqueue(Kind::Graph, "graph", 0, |driver, at| {
            // SAFETY: GRAPH-1 and GRAPH-2; `stream` is `S`, so the replay is ordered with every
            // other use.
            unsafe { driver.launch_graph(raw, at) }
        })
    }

    /// Views of the bundle for work of `S` between launches.
    pub fn views(&mut self) -> R::View<'_, S> {
        // SAFETY: GRAPH-1; borrowed uniquely, so no launch is enqueued while the views are there.
        unsafe { self.held.views() }
    }

    /// Makes later launches replay what `body` does now: the same calls in the same order, with
    /// other scalars, grids or parts of the bundle. Launches that are pending run as they were. The
    /// host waits for nothing.
    ///
    /// First `body` runs with nothing enqueued, and each launch whose arguments or shape are others
    /// than before is changed in the graph (`cuGraphExecKernelNodeSetParams`): what did not change
    /// costs no call. Only where a copy or a fill changed, or there are [foreign
    /// calls](Stream::foreign), it runs once more in a capture, and the graph is updated to that
    /// (`cuGraphExecUpdate`). So it may be called twice, and should do the same each time. While
    /// nothing is enqueued its stream is no captured one: what is enqueued behind the types, on
    /// [`Stream::raw`], would run.
    ///
    /// # Hazards prevented
    /// H25: `body` sees the graph's bundle, and nothing else of a stream, as in the
    /// [capture](Stream::capture).
    ///
    /// # Errors
    /// Those of `body`; [`Error::NotAnUpdate`](crate::Error::NotAnUpdate) if it makes other calls,
    /// or changes a copy or a fill in a graph that allocates;
    /// [`Error::Driver`](crate::Error::Driver). Launches replay what they did before. (If a call
    /// fails when some launches were changed, and so does changing them back, or if
    /// `cuGraphExecUpdate` fails in a way of which CUDA does not say that nothing was changed, the
    /// graph is never launched again: each launch is that error.)
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let frame = compute.alloc_zeroed::<f32>(1024)?;
    /// let mut graph = compute.capture(frame, |stream, mut frame| stream.fill(&mut frame, 1.0))?;
    /// graph.launch(&compute)?; // fills with 1, whenever it runs
    /// graph.update(|stream, mut frame| stream.fill(&mut frame, 2.0))?;
    /// graph.launch(&compute)?; // and this with 2
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn update(
        &mut self,
        body: impl for<'g> Fn(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> Result<()>
    where
        S::Device: Live,
    {
        self.instance.update(&mut self.held, &body, "Graph::update")
    }

    /// As [`update`](Self::update), with another bundle: later launches use that, and the one that
    /// the graph had comes back, in the order of `S`, after the launches that use it. The two may
    /// differ in lengths, where `body` copes.
    ///
    /// # Hazards prevented
    /// H25: what later launches use is owned by the graph; the old bundle's views end before.
    ///
    /// # Errors
    /// As [`update`](Self::update), with the new bundle; the graph has the old one and replays what
    /// it did before.
    pub fn replace(
        &mut self,
        bundle: R::On<S>,
        body: impl for<'g> Fn(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> Result<R::On<S>, Refused<R::On<S>>>
    where
        S::Device: Live,
    {
        // SAFETY: as in `capture`, where `R` was made of a bundle of `S`, so that it is of the
        // stream's device.
        let bundle = unsafe { R::idle_from::<S>(bundle) };
        // SAFETY: HELD-1: `S` owned it.
        let mut held = unsafe { Held::new(bundle, self.held.stream()) };
        match self.instance.update(&mut held, &body, "Graph::replace") {
            // Pending launches that use the old one are in the order of `S`, and later ones use the
            // new one.
            Ok(()) => Ok(std::mem::replace(&mut self.held, held).into_on()),
            // GRAPH-2: every launch still uses the old one, or there is none ever again.
            Err(error) => Err(Refused {
                error,
                value: held.into_on(),
            }),
        }
    }

    /// The bundle, on its stream; the graph is destroyed once its launches are done
    /// (`cuGraphExecDestroy`).
    pub fn into_inner(self) -> R::On<S> {
        let Self { instance, held, .. } = self;
        drop(instance);
        held.into_on()
    }
}
