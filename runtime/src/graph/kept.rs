//! [`KeptGraph`]: a graph that its stream keeps, and that remembers the stream.

use std::fmt;
use std::marker::PhantomData;

use super::Graph;
use super::held::Held;
use super::instance::Instance;
use crate::device::AnyDevice;
use crate::device::call::Call;
use crate::error::{During, Result};
use crate::memory::{Bundle, Kept};
use crate::stream::{AnyStream, Branded, IdleOnAny, Lasting, Stream};
use crate::tag::{Live, OnHost, StreamTag};
use cuda_rt_driver::Kind;

/// A captured graph that a stream keeps: it remembers its stream at run time. N workers have N of
/// them in a `Vec`, each with its memory inside.
///
/// [`Stream::keep_graph`] makes one. [`launch`](Self::launch) needs no handle: a graph is launched
/// on its own stream. [`Stream::with_graph`] lends the [`Graph`] to a closure, with all its
/// methods.
///
/// ```
/// use cuda_rt::{AnyDevice, DeviceBuffer, Error, Idle, KeptGraph, PinnedBuffer, Priority};
///
/// type Memory = (DeviceBuffer<u32, Idle<AnyDevice>>, PinnedBuffer<u32, Idle<AnyDevice>>);
/// let gpu = AnyDevice::open_or_simulate(0)?;
/// let mut workers: Vec<KeptGraph<Memory>> = Vec::new();
/// for value in 0..4_u32 {
///     let stream = gpu.create_stream(&format!("worker {value}"), Priority::Low)?;
///     workers.push(stream.run(|s| {
///         let memory = (s.alloc_zeroed(16)?, s.adopt(s.device().pinned(16)?)?);
///         let graph = s.capture(memory, |s, (mut data, mut host)| {
///             s.fill(&mut data, value)?;
///             s.copy_to_host(&data, &mut host)
///         })?;
///         Ok::<_, Error>(s.keep_graph(graph))
///     })?);
/// }
/// for worker in &mut workers {
///     worker.launch()?;
/// }
/// for (worker, value) in workers.iter_mut().zip(0..) {
///     worker.host(|(_, host)| assert_eq!(host.as_slice(), [value; 16]))?;
/// }
/// # Ok::<(), Error>(())
/// ```
//
// # Invariants
// KEPT-GRAPH-1. GRAPH-1 and GRAPH-2 hold for the instance and the kept bundle, with the bundle's
// stream for the stream of the graph's tag.
pub struct KeptGraph<R: Bundle<Device = AnyDevice>> {
    /// `None` only while a closure has the graph.
    graph: Option<Parts<R>>,
}

/// The parts of a graph. The instance is dropped first, so that the memory outlives the recorded
/// work.
type Parts<R> = (Instance, Kept<R>);

impl<R: Bundle<Device = AnyDevice>> fmt::Debug for KeptGraph<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptGraph")
            .field("stream", self.stream())
            .finish_non_exhaustive()
    }
}

impl<R: Bundle<Device = AnyDevice>> KeptGraph<R> {
    fn parts(&self) -> &Parts<R> {
        let parts = self.graph.as_ref();
        parts.expect("only a closure that borrows the value uniquely has the graph")
    }

    /// The stream that keeps the graph.
    pub fn stream(&self) -> &AnyStream {
        self.parts().1.stream()
    }

    /// Replays the captured work on its stream (`cuGraphLaunch`). Stream-ordered. Compares nothing:
    /// the graph knows its stream.
    ///
    /// # Errors
    /// As [`Graph::launch`].
    #[track_caller]
    pub fn launch(&mut self) -> Result<()> {
        let (instance, kept) = self.parts();
        let stream = kept.stream();
        let tag = std::any::type_name::<Branded<'_>>();
        let call = Call::new(stream.core(), stream.at(), tag, "KeptGraph::launch");
        let raw = instance.raw().during(call.name())?;
        call.enqueue(Kind::Graph, "graph", 0, move |driver, at| {
            // SAFETY: KEPT-GRAPH-1: the graph uses only its own memory and the bundle's, whose uses
            // are in the order of `at`, the stream that keeps it.
            unsafe { driver.launch_graph(raw, at) }
        })
    }

    /// Blocks the host until the work that the stream has so far is over, and lends views of the
    /// bundle to `body`, as [`Graph::host`] does.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H14](crate::hazards#h14), [H25](crate::hazards#h25): as
    /// [`Graph::host`].
    ///
    /// # Errors
    /// As [`Graph::host`].
    #[track_caller]
    pub fn host<O>(&mut self, body: impl for<'v> FnOnce(R::View<'v, OnHost<AnyDevice>>) -> O) -> Result<O> {
        let parts = self.graph.as_mut();
        let (_, kept) = parts.expect("only a closure that borrows the value uniquely has the graph");
        kept.host(body)
    }

    /// The bundle, kept by the same stream. The graph is destroyed once its launches are done
    /// (`cuGraphExecDestroy`).
    ///
    /// ```
    /// # use cuda_rt::{AnyDevice, Error, Priority};
    /// # let gpu = AnyDevice::open_or_simulate(0)?;
    /// let stream = gpu.create_stream("worker", Priority::Low)?;
    /// let mut graph = stream.run(|s| {
    ///     let data = s.alloc_zeroed::<u32>(4)?;
    ///     s.capture(data, |s, mut data| s.fill(&mut data, 6)).map(|graph| s.keep_graph(graph))
    /// })?;
    /// graph.launch()?;
    /// assert_eq!(graph.stream(), &stream);
    /// let kept = graph.into_kept(); // the memory alone
    /// let data = stream.run(|s| s.copy_to_vec(&s.open(kept)?))?;
    /// assert_eq!(data, [6; 4]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn into_kept(self) -> Kept<R> {
        let parts = self.graph;
        let (instance, kept) = parts.expect("only a closure that borrows the value uniquely has the graph");
        drop(instance);
        kept
    }
}

/// A graph that a closure has. The drop gives it back, also after a panic.
struct Lent<'a, R: Bundle<Device = AnyDevice>, S: StreamTag> {
    to: &'a mut Option<Parts<R>>,
    stream: AnyStream,
    graph: Option<Graph<R, S>>,
}

impl<R: Bundle<Device = AnyDevice>, S: StreamTag> Drop for Lent<'_, R, S> {
    fn drop(&mut self) {
        if let Some(Graph { instance, held, .. }) = self.graph.take() {
            // SAFETY: KEPT-1: HELD-1 says that `S` owns the bundle, and `S` is `self.stream`: the
            // closure could exchange the graph only for another graph of the same tag.
            let kept = unsafe { Kept::new(held.into_bundle(), self.stream.clone()) };
            *self.to = Some((instance, kept));
        }
    }
}

impl<S: StreamTag> Stream<S> {
    /// Keeps a captured graph of this stream as a value that names its stream at run time. Calls
    /// nothing of the driver.
    pub fn keep_graph<R: Bundle>(&self, graph: Graph<R, S>) -> KeptGraph<IdleOnAny<R>>
    where
        IdleOnAny<R>: Bundle<On<S> = R::On<S>>,
        S: Lasting,
        S::Device: Live,
    {
        let Graph { instance, held, .. } = graph;
        // GRAPH-1: the bundle is owned by `S`, which is this stream. The graph is kept with its
        // bundle (GRAPH-2).
        let kept = self.keep_held::<IdleOnAny<R>>(held.into_on());
        KeptGraph {
            graph: Some((instance, kept)),
        }
    }

    /// Lends a graph that this stream keeps to `body`, with all methods of [`Graph`]. Costs a
    /// comparison, and calls nothing of the driver. The graph is kept again when `body` returns or
    /// panics.
    ///
    /// # Errors
    /// [`Error::OtherStream`](crate::Error::OtherStream) if another stream keeps the graph. `body`
    /// is then not called.
    ///
    /// ```
    /// # use cuda_rt::{AnyDevice, Error, Priority};
    /// # let gpu = AnyDevice::open_or_simulate(0)?;
    /// let stream = gpu.create_stream("worker", Priority::Low)?;
    /// let mut kept = stream.run(|s| {
    ///     let graph = s.capture(s.alloc_zeroed::<u32>(16)?, |s, mut data| s.fill(&mut data, 1))?;
    ///     Ok::<_, Error>(s.keep_graph(graph))
    /// })?;
    /// kept.launch()?;
    /// stream.run(|s| {
    ///     s.with_graph(&mut kept, |graph| graph.update(|s, mut data| s.fill(&mut data, 2)))
    /// })??;
    /// kept.launch()?;
    /// let data = stream.run(|s| s.copy_to_vec(&s.open(kept.into_kept())?))?;
    /// assert_eq!(data, [2; 16]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_graph<R: Bundle<Device = AnyDevice>, O>(
        &self,
        kept: &mut KeptGraph<R>,
        body: impl FnOnce(&mut Graph<R, S>) -> O,
    ) -> Result<O>
    where
        S::Device: Live,
    {
        self.keeps(kept.stream(), "Stream::with_graph")?;
        let parts = kept.graph.take();
        let (instance, bundle) = parts.expect("only a closure that borrows the value uniquely has the graph");
        let (bundle, stream) = bundle.into_parts();
        // SAFETY: HELD-1, by KEPT-1: the bundle is owned by the stream that keeps it, which the
        // comparison above found to be this stream, and so `S`.
        let held = unsafe { Held::new(bundle, self) };
        let mut lent = Lent {
            to: &mut kept.graph,
            stream,
            graph: Some(Graph {
                instance,
                held,
                not_sync: PhantomData,
            }),
        };
        let graph = lent.graph.as_mut();
        Ok(body(graph.expect("it was put there just now")))
    }
}
