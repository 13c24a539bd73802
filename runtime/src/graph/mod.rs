//! [`Graph`]: captured work, which a stream replays, and which can change between replays.

mod capture;
mod capture_log;
mod captured;
mod held;
mod instance;
mod kept;
mod modules;

pub use captured::{Captured, InGraph};
pub use kept::KeptGraph;

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::{During, Refused, Result};
use crate::graph::held::Held;
use crate::graph::instance::Instance;
use crate::memory::{Bundle, OwnedBy};
use crate::stream::Stream;
use crate::tag::{Live, NamedStream, OnHost, StreamTag};
use cuda_rt_driver::{CallSite, Kind};

/// Captured work of stream `S`, with all the memory that the work uses (`CUgraphExec`).
///
/// The graph owns the bundle given to [`Stream::capture`]: while the graph exists, no other code
/// can free, move or write the memory of the replays ([H25](crate::hazards#h25)). Between launches
/// [`views`](Self::views) gives access to the bundle, in the order of `S`, and [`host`](Self::host)
/// to the host. [`update`](Self::update) changes scalars, and [`replace`](Self::replace) the
/// bundle, without a new instantiation.
///
/// Every method takes `&mut self`, and the type is `!Sync`: two concurrent launches of one graph
/// would race.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let data = compute.alloc_from_slice(&[1_u32, 2, 3])?;
/// let host = compute.adopt(gpu.pinned::<u32>(3)?)?;
///
/// // Recorded once, and run at each launch. Inside, the views name the graph's own memory.
/// let mut graph = compute.capture((data, host), |stream, (data, mut host)| {
///     stream.copy_to_host(&data, &mut host)
/// })?;
/// graph.launch(&compute)?;
/// graph.host(|(_data, host)| assert_eq!(host.as_slice(), [1, 2, 3]))?; // waits
///
/// // Between launches the stream can write what the graph reads.
/// let (mut data, _host) = graph.views();
/// compute.fill(&mut data, 9)?;
/// graph.launch(&compute)?;
/// graph.host(|(_data, host)| assert_eq!(host.as_slice(), [9; 3]))?;
///
/// let (data, _host) = graph.into_inner(); // the memory, again without the graph
/// assert_eq!(data.len(), 3);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// GRAPH-1. `held` is the graph's bundle: every use is in the order of `S`.
// GRAPH-2. `instance` uses no memory but the bundle's and its own.
pub struct Graph<R: Bundle, S: StreamTag> {
    // Dropped first, so that the memory outlives the recorded work.
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
    /// Records the work that `body` gives to the stream into a graph, and does not run it
    /// (`cuStreamBeginCapture` in relaxed mode, `cuStreamEndCapture`, `cuGraphInstantiate`). Blocks
    /// the host while CUDA builds the graph.
    ///
    /// `body` gets a stream of its own, so that no other thread's work can enter the capture. It
    /// also gets views of `bundle`, which the graph then owns. Memory that `body` allocates is
    /// allocated and freed by each launch.
    ///
    /// # Hazards prevented
    /// [H25](crate::hazards#h25), [H43](crate::hazards#h43): outside buffers, handoffs and streams
    /// belong to another device, and values made in `body` cannot leave it.
    ///
    /// # Errors
    /// The errors of `body`, and [`Error::Driver`](crate::Error::Driver) if a call cannot be
    /// captured. The bundle is then dropped in this stream's order; no work has run.
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
        // SAFETY: the bundle is owned by `S`, so all its uses are in this stream's order. `Held`
        // keeps it in that order, and gives it back to `S`.
        let bundle = unsafe { bundle.detach() };
        // SAFETY: HELD-1: the bundle was owned by `S`, which is `self`.
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
    /// Another stream of the same capture, which stands for `N`. Its later work comes after the
    /// present work of this stream. A second call with the same `N` returns the same stream. At the
    /// end of the capture the forked streams are joined.
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
    /// [`Error::Driver`](crate::Error::Driver), also if an [update](Self::update) failed half-way
    /// and could not be undone.
    #[track_caller]
    pub fn launch(&mut self, stream: &Stream<S>) -> Result<()> {
        let call = stream.call("Graph::launch");
        let raw = self.instance.raw().during(call.name())?;
        call.enqueue(Kind::Graph, "graph", 0, move |driver, at| {
            // SAFETY: GRAPH-1 and GRAPH-2: the graph uses only its own memory and the bundle's,
            // whose uses are in the order of `S`. `stream` is `S`, so the replay is ordered with
            // every other use.
            unsafe { driver.launch_graph(raw, at) }
        })
    }

    /// Views of the bundle, for work of `S` between launches.
    pub fn views(&mut self) -> R::View<'_, S> {
        // SAFETY: GRAPH-1: every use is in the order of `S`. The graph is borrowed uniquely, so no
        // launch is enqueued while the views exist.
        unsafe { self.held.views() }
    }

    /// Blocks the host until the work that the stream has so far is over (`cuEventRecord`,
    /// `cuEventSynchronize`), and lends views of the bundle to `body`. The elements of pinned parts
    /// are a `&mut [T]` there: results that the graph downloaded can be read, and sources that it
    /// uploads rewritten for later launches. Device memory has a length only.
    ///
    /// The views cannot leave `body`, and no buffer of the bundle can be exchanged: the graph has
    /// recorded its address.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H14](crate::hazards#h14): no launch runs while `body` does.
    /// [H25](crate::hazards#h25): the graph keeps its memory.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the wait fails. `body` is then not called, and
    /// the graph is unchanged.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let input = compute.adopt(gpu.pinned_from(&[1_u32, 2, 3])?)?;
    /// let output = compute.adopt(gpu.pinned::<u32>(3)?)?;
    /// let bundle = (input, compute.alloc_zeroed::<u32>(3)?, output);
    /// let mut graph = compute.capture(bundle, |stream, (input, mut data, mut output)| {
    ///     stream.copy_to_device(&input, &mut data)?;
    ///     stream.copy_to_host(&data, &mut output)
    /// })?;
    /// graph.launch(&compute)?;
    /// graph.host(|(mut input, _, output)| {
    ///     assert_eq!(output.as_slice(), [1, 2, 3]);
    ///     input.as_mut_slice()[0] = 7;
    /// })?;
    /// graph.launch(&compute)?;
    /// graph.host(|(_, _, output)| assert_eq!(output.as_slice(), [7, 2, 3]))?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn host<O>(&mut self, body: impl for<'v> FnOnce(R::View<'v, OnHost<S::Device>>) -> O) -> Result<O>
    where
        S::Device: Live,
    {
        const DURING: &str = "Graph::host";
        let uses = self.held.stream().record(DURING)?;
        uses.synchronize().during(DURING)?;
        self.held.note_host_access(CallSite::here(DURING));
        // SAFETY: GRAPH-1: every use is in the order of `S`, and over, because the wait above has
        // returned. No stream has the tag `OnHost`, and the graph is borrowed uniquely, so no work
        // that uses the bundle is enqueued while the views exist.
        let output = body(unsafe { self.held.views() });
        self.held.note_host_access(CallSite::here("end of Graph::host"));
        Ok(output)
    }

    /// Makes later launches replay the calls that `body` makes now. They must be the same calls in
    /// the same order; scalars, grids and parts of the bundle may differ. Pending launches do not
    /// change. The host does not wait for the GPU.
    ///
    /// First `body` runs with nothing enqueued. Then each launch with other arguments or another
    /// shape is changed in the graph (`cuGraphExecKernelNodeSetParams`); an unchanged launch costs
    /// no call. If a copy or a fill changed, or if `body` makes [foreign calls](Stream::foreign),
    /// `body` runs once more in a capture, and the graph is updated to that capture
    /// (`cuGraphExecUpdate`). So `body` may be called twice, and should make the same calls each
    /// time. In the first run its stream is not being captured: work enqueued on [`Stream::raw`]
    /// would run.
    ///
    /// # Hazards prevented
    /// [H25](crate::hazards#h25): `body` sees the graph's bundle, and no other memory of a stream,
    /// as in the [capture](Stream::capture).
    ///
    /// # Errors
    /// The errors of `body`; [`Error::NotAnUpdate`](crate::Error::NotAnUpdate) if it makes other
    /// calls, or changes a copy or a fill in a graph that allocates;
    /// [`Error::Driver`](crate::Error::Driver): CUDA refuses some changes of copies and fills
    /// (`GRAPH_EXEC_UPDATE_FAILURE`). A copy cannot change from memory of the device to managed or
    /// mapped memory, or back. A graph with a copy of rows refuses most updates that need a capture
    /// (driver 580). On an error the graph keeps its previous contents. Two failures leave the
    /// contents unknown: a call fails after some launches were changed, and changing them back
    /// fails too; or `cuGraphExecUpdate` fails, and CUDA does not say that nothing was changed.
    /// Every later launch then returns that error.
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
        self.instance.update(&mut self.held, &body, "Graph::update")?;
        self.instance.end_replaced();
        Ok(())
    }

    /// Like [`update`](Self::update), with another bundle. Later launches use the new bundle. The
    /// call returns the old bundle, in the order of `S`, after the launches that use it. The
    /// lengths of the two bundles may differ, if `body` allows that.
    ///
    /// # Hazards prevented
    /// [H25](crate::hazards#h25): the graph owns the memory of later launches, and no view of the
    /// old bundle exists.
    ///
    /// # Errors
    /// As for [`update`](Self::update); [`Refused`] holds the new bundle. The graph keeps the old
    /// bundle and its previous contents.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let buffers = |value| Ok::<_, cuda_rt::Error>((
    ///     compute.alloc_from_slice(&[value; 4])?,
    ///     compute.alloc_zeroed::<u32>(4)?,
    /// ));
    /// let mut graph = compute.capture(buffers(1)?, |s, (from, mut to)| s.copy(&from, &mut to))?;
    /// graph.launch(&compute)?;
    /// // The same work, on other memory; the old memory comes back.
    /// let old = graph.replace(buffers(2)?, |s, (from, mut to)| s.copy(&from, &mut to))?;
    /// graph.launch(&compute)?;
    /// assert_eq!(compute.copy_to_vec(&old.1)?, [1; 4]);
    /// assert_eq!(compute.copy_to_vec(&graph.into_inner().1)?, [2; 4]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn replace(
        &mut self,
        bundle: R::On<S>,
        body: impl for<'g> Fn(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> Result<R::On<S>, Refused<R::On<S>>>
    where
        S::Device: Live,
    {
        // SAFETY: as in `capture`: the bundle is owned by `S`, and `Held` keeps it in that order.
        // `R` came from a bundle of `S`, so it is of the stream's device.
        let bundle = unsafe { R::idle_from::<S>(bundle) };
        // SAFETY: HELD-1: `S` owned the bundle.
        let mut held = unsafe { Held::new(bundle, self.held.stream()) };
        match self.instance.update(&mut held, &body, "Graph::replace") {
            // Pending launches that use the old bundle are in the order of `S`. Later launches use
            // the new bundle, which the graph owns before it calls the driver again (INSTANCE-4).
            Ok(()) => {
                let old = std::mem::replace(&mut self.held, held);
                self.instance.end_replaced();
                Ok(old.into_on())
            }
            // GRAPH-2: every launch still uses the old bundle, or the graph is never launched
            // again.
            Err(error) => Err(Refused {
                error,
                value: held.into_on(),
            }),
        }
    }

    /// Returns the bundle, on its stream. The graph is destroyed once its launches are done
    /// (`cuGraphExecDestroy`).
    pub fn into_inner(self) -> R::On<S> {
        let Self { instance, held, .. } = self;
        drop(instance);
        held.into_on()
    }
}
