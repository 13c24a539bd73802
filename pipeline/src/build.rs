//! Builders of pipelines: each method adds one stage.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use super::error::{BoxError, Cause, PipelineError, Stage, StageKind};
use super::order::InOrder;
use super::ready::Ready;
use super::ring::Ring;
use super::run::{Body, Cancel, Context, Failed, Plan, Rings, Task};
use super::stages::{self, Inbox, Outbox};
use cuda_rt_runtime::Device;
use cuda_rt_runtime::Handoff;
use cuda_rt_runtime::Result;
use cuda_rt_runtime::Stream;
use cuda_rt_runtime::{Bundle, DeviceBuffer, DeviceSlice, Element, PinnedBuffer};
use cuda_rt_runtime::{Idle, Live, NamedStream};

/// A pipeline without stages; [the module](super) shows the stages that it can take.
#[derive(Debug)]
#[must_use = "a pipeline does nothing before it is `run`"]
pub struct Pipeline<D> {
    gpu: Device<D>,
    buffers: usize,
    timed: bool,
    cancel: Cancel,
}

/// A pipeline whose last stage leaves its items in `R`: [`PinnedBuffer`] on the host,
/// [`DeviceBuffer`] on the device.
///
/// The type says which stage may come next. Counterexample: if `R` did not name the place,
/// `source(…).stage(…)` would compile, and a kernel would be given memory of the host
/// ([H30](cuda_rt_runtime::hazards#h30)).
#[must_use = "a pipeline does nothing before it is `run`"]
pub struct Stages<'env, D: Live, I, R: Bundle> {
    plan: Plan<'env, D>,
    inbox: Inbox<I, R>,
    /// Length of a buffer, in elements.
    capacity: usize,
}

impl<D: Live> Pipeline<D> {
    /// A pipeline with `buffers` slots at each boundary between two stages. With two slots,
    /// neighbouring stages overlap; more slots hide stages that are slow at times. Each slot costs
    /// the memory of one item.
    ///
    /// # Panics
    /// If `buffers` is 0.
    #[track_caller]
    pub fn new(gpu: &Device<D>, buffers: usize) -> Self {
        assert!(
            buffers > 0,
            "a pipeline needs at least one buffer at each boundary"
        );
        Self {
            gpu: gpu.clone(),
            buffers,
            timed: true,
            cancel: Cancel::new(),
        }
    }

    /// Lets `cancel` end the pipeline early.
    pub fn cancel_with(self, cancel: &Cancel) -> Self {
        Self {
            cancel: cancel.clone(),
            ..self
        }
    }

    /// Leaves out the two timing events around each piece of work on a stream. The report then has
    /// times of the host's stages only.
    pub fn untimed(self) -> Self {
        Self { timed: false, ..self }
    }

    pub(super) fn plan<'env>(self) -> Plan<'env, D> {
        Plan {
            gpu: self.gpu,
            buffers: self.buffers,
            timed: self.timed,
            cancel: self.cancel,
            stages: Vec::new(),
            tasks: Vec::new(),
            slots: 0,
            mark: None,
            rings: Rings::default(),
            failed: None,
            watcher: None,
        }
    }
}

/// A stage's body, bound to its stream. A pipeline that lacks one of its streams is never run.
pub(super) fn on_stream<'env, D: Live + 'env, S: NamedStream<Device = D> + 'env>(
    stream: Option<Stream<S>>,
    body: impl FnOnce(&Context<'_, D>, &Stream<S>) -> Result<(), Failed> + Send + 'env,
) -> Body<'env, D> {
    Box::new(move |context| match stream {
        Some(stream) => body(context, &stream),
        None => unreachable!("a pipeline without one of its streams is not run"),
    })
}

impl<'env, D: Live + 'env> Plan<'env, D> {
    pub(super) fn stage(&mut self, kind: StageKind, stream: Option<&'static str>) -> usize {
        let position = self.stages.len();
        self.stages.push(Stage {
            kind,
            stream,
            position,
        });
        position
    }

    /// Remembers the first stage that cannot be made ready. The pipeline then runs no stage.
    fn ready<T>(&mut self, stage: usize, result: Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                self.failed.get_or_insert(PipelineError {
                    stage: self.stages[stage],
                    item: None,
                    cause: Cause::Device(error),
                    finished: 0,
                });
            })
            .ok()
    }

    pub(super) fn stream<S: NamedStream<Device = D> + 'env>(&mut self, stage: usize) -> Option<Stream<S>> {
        let stream = self.gpu.stream::<S>();
        let stream = self.ready(stage, stream)?;
        if self.mark.is_none() {
            let stream = stream.clone();
            self.mark = Some(Box::new(move || stream.record_timed_event()));
        }
        Some(stream)
    }

    fn ring<R: Bundle<Device = D>>(
        &mut self,
        stage: usize,
        slot: impl Fn() -> Result<Handoff<R>>,
    ) -> Ring<R> {
        let slots = (0..self.buffers).map(|_| slot()).collect::<Result<Vec<_>>>();
        let slots = self.ready(stage, slots).unwrap_or_default();
        self.slots += slots.len();
        Ring::new(&self.gpu, slots)
    }

    pub(super) fn pinned_ring<T: Element>(
        &mut self,
        stage: usize,
        capacity: usize,
    ) -> Ring<PinnedBuffer<T, Idle<D>>> {
        let gpu = self.gpu.clone();
        self.ring(stage, || Ok(Handoff::ready(gpu.pinned(capacity)?)))
    }

    pub(super) fn device_ring<T: Element, S: NamedStream<Device = D>>(
        &mut self,
        stage: usize,
        stream: Option<&Stream<S>>,
        capacity: usize,
    ) -> Ring<DeviceBuffer<T, Idle<D>>> {
        match stream {
            Some(stream) => self.ring(stage, || stream.release(stream.alloc_zeroed(capacity)?)),
            None => Ring::new(&self.gpu, Vec::new()),
        }
    }

    /// Adds a stage whose output is `R`.
    pub(super) fn between<I, R: Bundle>(
        self,
        capacity: usize,
        stage: impl FnOnce(Outbox<I, R>) -> (usize, Body<'env, D>),
    ) -> Stages<'env, D, I, R> {
        self.between_workers(capacity, |outbox| [stage(outbox)])
    }

    /// Adds a stage with several threads, whose output is `R`.
    pub(super) fn between_workers<I, R: Bundle, W>(
        mut self,
        capacity: usize,
        workers: impl FnOnce(Outbox<I, R>) -> W,
    ) -> Stages<'env, D, I, R>
    where
        W: IntoIterator<Item = (usize, Body<'env, D>)>,
    {
        // The channel has room for every slot, so sending never blocks: a stage waits for slots
        // only.
        let (outbox, inbox) = sync_channel(self.buffers);
        for worker in workers(outbox) {
            self.task(worker);
        }
        Stages {
            plan: self,
            inbox,
            capacity,
        }
    }

    fn task(&mut self, (stage, body): (usize, Body<'env, D>)) {
        self.tasks.push(Task { stage, body });
    }
}

/// Stages after data on the host.
impl<'env, D: Live + 'env, I: Send + 'env, T: Element + Send + 'env>
    Stages<'env, D, I, PinnedBuffer<T, Idle<D>>>
{
    /// Copies each item to the device, on the stream `S`, in stream order.
    pub fn upload<S: NamedStream<Device = D> + 'env>(self) -> Stages<'env, D, I, DeviceBuffer<T, Idle<D>>> {
        let Self {
            mut plan,
            inbox,
            capacity,
        } = self;
        let stage = plan.stage(StageKind::Upload, Some(S::NAME));
        let stream = plan.stream::<S>(stage);
        let ring = plan.device_ring(stage, stream.as_ref(), capacity);
        let rings = plan.rings.clone();
        plan.between(capacity, |outbox| {
            let body = on_stream(stream, move |context, stream| {
                let copy = |stream: &Stream<S>,
                            _: &I,
                            len: usize,
                            from: &PinnedBuffer<T, S>,
                            to: &mut DeviceBuffer<T, S>| {
                    stream.copy_to_device(&from[..len], &mut to[..len])?;
                    Ok(len)
                };
                let done = stages::transform(context, stream, inbox, (&ring, capacity), outbox, copy);
                rings.keep(ring);
                done
            });
            (stage, body)
        })
    }

    /// Ends on the host: `body` gets each item, in order, on a thread of its own. It may hold the
    /// item's memory for as long as it likes: the slot is not filled again before `body` returns.
    ///
    /// # Hazards prevented
    /// [H13](cuda_rt_runtime::hazards#h13), [H17](cuda_rt_runtime::hazards#h17): `body` is called
    /// when the download is done, and borrows the data.
    pub fn sink(mut self, body: impl FnMut(I, &[T]) -> Result<(), BoxError> + Send + 'env) -> Ready<'env, D> {
        let stage = self.plan.stage(StageKind::Sink, None);
        let inbox = Mutex::new(self.inbox);
        self.plan.task((
            stage,
            Box::new(move |context| stages::sink(context, &inbox, body)),
        ));
        Ready(self.plan)
    }

    /// Like [`sink`](Self::sink), on several threads: items come in any order
    /// ([`sink_ordered`](Self::sink_ordered) restores the order). Example: write frames to a file
    /// at their offsets, with `pwrite`, as [`source_ordered`](Pipeline::source_ordered) shows. To
    /// keep all workers busy, give the pipeline a buffer for each, and one more for the item that
    /// is being downloaded.
    ///
    /// If `body` fails on an item, other workers go on with later items. A file that is written at
    /// offsets then has its full length, and a hole. So write another file than the target, and
    /// rename it when [`run`](Ready::run) has returned `Ok`.
    ///
    /// # Hazards prevented
    /// [H17](cuda_rt_runtime::hazards#h17), [H19](cuda_rt_runtime::hazards#h19): a slot belongs to
    /// one worker, and its memory is filled again only after `body` has returned.
    ///
    /// # Panics
    /// If `workers` is 0.
    #[track_caller]
    pub fn sink_unordered(
        mut self,
        workers: usize,
        body: impl Fn(I, &[T]) -> Result<(), BoxError> + Send + Sync + 'env,
    ) -> Ready<'env, D> {
        assert!(workers > 0, "a sink needs at least one worker");
        let stage = self.plan.stage(StageKind::Sink, None);
        let (inbox, body) = (Arc::new(Mutex::new(self.inbox)), Arc::new(body));
        for _ in 0..workers {
            let (inbox, body) = (Arc::clone(&inbox), Arc::clone(&body));
            let worker: Body<'env, D> =
                Box::new(move |context| stages::sink(context, &inbox, |item, data: &[T]| body(item, data)));
            self.plan.task((stage, worker));
        }
        Ready(self.plan)
    }

    /// Like [`sink`](Self::sink), on several threads and in order. The workers run `work` side by
    /// side, in any order, to turn items into results. `finish` gets the results one by one, in the
    /// order of the items. Example: encode frames on all cores, and write them to one file.
    ///
    /// When `work` returns, the next download may use the item's memory. A worker keeps its result
    /// until all earlier items are finished, so at most `workers` results are kept. If `work` or
    /// `finish` fails on an item, earlier items are still finished; later items are not.
    ///
    /// # Panics
    /// If `workers` is 0.
    ///
    /// Four threads add up, and one writes the sums in the order of the items:
    ///
    /// ```
    /// use cuda_rt::{Device, pipeline::Pipeline};
    ///
    /// # cuda_rt::streams! { Upload; Compute; Download; }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gpu = Device::open_or_simulate()?;
    /// let mut lines = String::new();
    /// Pipeline::new(&gpu, 4)
    ///     .untimed()
    ///     .source(64, 1..=5_u32, |item, pinned: &mut [u32]| {
    ///         pinned[..2].fill(*item);
    ///         Ok(2) // of 64
    ///     })
    ///     .upload::<Upload>()
    ///     .in_place::<Compute>(|stream, item, data| stream.fill(&mut data[..1], item * 100))
    ///     .download::<Download>()
    ///     .sink_ordered(
    ///         4,
    ///         |item, data| Ok((item, data.iter().sum::<u32>())),
    ///         |(item, sum)| {
    ///             lines += &format!("{item}: {sum}\n");
    ///             Ok(())
    ///         },
    ///     )
    ///     .run()?;
    /// assert_eq!(lines, "1: 101\n2: 202\n3: 303\n4: 404\n5: 505\n");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn sink_ordered<O: 'env>(
        mut self,
        workers: usize,
        work: impl Fn(I, &[T]) -> Result<O, BoxError> + Send + Sync + 'env,
        finish: impl FnMut(O) -> Result<(), BoxError> + Send + 'env,
    ) -> Ready<'env, D> {
        assert!(workers > 0, "a sink needs at least one worker");
        let stage = self.plan.stage(StageKind::Sink, None);
        let all = Arc::new((Mutex::new(self.inbox), work, InOrder::new(finish)));
        for _ in 0..workers {
            let all = Arc::clone(&all);
            let worker: Body<'env, D> = Box::new(move |context| {
                let (inbox, work, order) = &*all;
                stages::sink_in_order(context, inbox, work, order)
            });
            self.plan.task((stage, worker));
        }
        Ready(self.plan)
    }
}

/// Stages after data on the device.
impl<'env, D: Live + 'env, I: Send + 'env, T: Element + Send + 'env>
    Stages<'env, D, I, DeviceBuffer<T, Idle<D>>>
{
    /// Runs kernels on the stream `S`, from the buffer that holds the item to another buffer of the
    /// same length. `body` only enqueues.
    ///
    /// Values that `body` has captured stay with it from item to item: weights, tables, state of
    /// `S`.
    ///
    /// # Hazards prevented
    /// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03): `input` and
    /// `output` belong to `S` when `body` gets them, and it cannot keep them.
    pub fn stage<S: NamedStream<Device = D> + 'env>(
        self,
        mut body: impl FnMut(&Stream<S>, &I, &DeviceSlice<T, S>, &mut DeviceSlice<T, S>) -> Result<()>
        + Send
        + 'env,
    ) -> Self {
        let capacity = self.capacity;
        self.transform(
            capacity,
            move |stream, item, len, input: &DeviceBuffer<T, S>, output: &mut DeviceBuffer<T, S>| {
                body(stream, item, &input[..len], &mut output[..len])?;
                Ok(len)
            },
        )
    }

    /// Like [`stage`](Self::stage), with output buffers of another type and of `capacity` elements.
    /// `body` returns how many elements it fills.
    pub fn stage_into<S: NamedStream<Device = D> + 'env, U: Element + Send + 'env>(
        self,
        capacity: usize,
        mut body: impl FnMut(&Stream<S>, &I, &DeviceSlice<T, S>, &mut DeviceSlice<U, S>) -> Result<usize>
        + Send
        + 'env,
    ) -> Stages<'env, D, I, DeviceBuffer<U, Idle<D>>> {
        self.transform(
            capacity,
            move |stream, item, len, input: &DeviceBuffer<T, S>, output: &mut DeviceBuffer<U, S>| {
                body(stream, item, &input[..len], output)
            },
        )
    }

    fn transform<S: NamedStream<Device = D> + 'env, U: Element + Send + 'env>(
        self,
        capacity: usize,
        body: impl FnMut(&Stream<S>, &I, usize, &DeviceBuffer<T, S>, &mut DeviceBuffer<U, S>) -> Result<usize>
        + Send
        + 'env,
    ) -> Stages<'env, D, I, DeviceBuffer<U, Idle<D>>> {
        let Self { mut plan, inbox, .. } = self;
        let stage = plan.stage(StageKind::Kernel, Some(S::NAME));
        let stream = plan.stream::<S>(stage);
        let ring = plan.device_ring(stage, stream.as_ref(), capacity);
        let rings = plan.rings.clone();
        plan.between(capacity, |outbox| {
            let body = on_stream(stream, move |context, stream| {
                let done = stages::transform(context, stream, inbox, (&ring, capacity), outbox, body);
                rings.keep(ring);
                done
            });
            (stage, body)
        })
    }

    /// Runs kernels on the stream `S` that change the item in place; the stage adds no buffers.
    pub fn in_place<S: NamedStream<Device = D> + 'env>(
        self,
        mut body: impl FnMut(&Stream<S>, &I, &mut DeviceSlice<T, S>) -> Result<()> + Send + 'env,
    ) -> Self {
        let Self {
            mut plan,
            inbox,
            capacity,
        } = self;
        let stage = plan.stage(StageKind::Kernel, Some(S::NAME));
        let stream = plan.stream::<S>(stage);
        plan.between(capacity, |outbox| {
            let body = on_stream(stream, move |context, stream| {
                let each = |stream: &Stream<S>, item: &I, len: usize, data: &mut DeviceBuffer<T, S>| {
                    body(stream, item, &mut data[..len])
                };
                stages::in_place(context, stream, inbox, outbox, each)
            });
            (stage, body)
        })
    }

    /// Copies each item to pinned memory, on the stream `S`, in stream order.
    pub fn download<S: NamedStream<Device = D> + 'env>(self) -> Stages<'env, D, I, PinnedBuffer<T, Idle<D>>> {
        let Self {
            mut plan,
            inbox,
            capacity,
        } = self;
        let stage = plan.stage(StageKind::Download, Some(S::NAME));
        let stream = plan.stream::<S>(stage);
        let ring = plan.pinned_ring(stage, capacity);
        let rings = plan.rings.clone();
        plan.between(capacity, |outbox| {
            let body = on_stream(stream, move |context, stream| {
                let copy = |stream: &Stream<S>,
                            _: &I,
                            len: usize,
                            from: &DeviceBuffer<T, S>,
                            to: &mut PinnedBuffer<T, S>| {
                    stream.copy_to_host(&from[..len], &mut to[..len])?;
                    Ok(len)
                };
                let done = stages::transform(context, stream, inbox, (&ring, capacity), outbox, copy);
                rings.keep(ring);
                done
            });
            (stage, body)
        })
    }

    /// Ends on the device: `body` enqueues work on the stream `S` that reads each item, in order.
    /// Nothing is downloaded. The host runs ahead of the GPU by at most as many items as there are
    /// buffers.
    pub fn consume<S: NamedStream<Device = D> + 'env>(
        self,
        mut body: impl FnMut(&Stream<S>, I, &DeviceSlice<T, S>) -> Result<()> + Send + 'env,
    ) -> Ready<'env, D> {
        let Self { mut plan, inbox, .. } = self;
        let stage = plan.stage(StageKind::Consume, Some(S::NAME));
        let stream = plan.stream::<S>(stage);
        let ahead = plan.buffers;
        let body = on_stream(stream, move |context, stream| {
            let each = |stream: &Stream<S>, item: I, len: usize, input: &DeviceBuffer<T, S>| {
                body(stream, item, &input[..len])
            };
            stages::consume(context, stream, inbox, ahead, each)
        });
        plan.task((stage, body));
        Ready(plan)
    }
}

impl<D: Live, I, R: Bundle> std::fmt::Debug for Stages<'_, D, I, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stages")
            .field("stages", &self.plan.stages)
            .finish_non_exhaustive()
    }
}
