//! The first stages of pipelines: sources on the host, and work that fills device memory.

use std::sync::Arc;

use super::build::{Pipeline, Stages, on_stream};
use super::error::{BoxError, StageKind};
use super::run::Body;
use super::source_workers::SourceWorkers;
use super::stages;
use cuda_rt_runtime::Result;
use cuda_rt_runtime::Stream;
use cuda_rt_runtime::driver::process::without_children;
use cuda_rt_runtime::{DeviceBuffer, DeviceSlice, Element, PinnedBuffer};
use cuda_rt_runtime::{Idle, Live, NamedStream};

impl<D: Live> Pipeline<D> {
    /// Begins on the host: `fill` writes an item into pinned memory of `capacity` elements, and
    /// returns how many elements it has written. Items may differ in length. The item itself
    /// travels with the data to all stages.
    ///
    /// The iterator and `fill` run on a thread of their own. The memory given to `fill` holds the
    /// data of an earlier item.
    ///
    /// # Hazards prevented
    /// [H14](cuda_rt_runtime::hazards#h14): `fill` is called when the last upload from that memory
    /// is done. Only the source's thread waits for the upload.
    pub fn source<'env, T, I>(
        self,
        capacity: usize,
        items: impl IntoIterator<Item = I, IntoIter: Send + 'env>,
        mut fill: impl FnMut(&mut I, &mut [T]) -> Result<usize, BoxError> + Send + 'env,
    ) -> Stages<'env, D, I, PinnedBuffer<T, Idle<D>>>
    where
        D: 'env,
        T: Element + Send + 'env,
        I: Send + 'env,
    {
        let mut items = items.into_iter();
        self.reader(capacity, move |pinned| {
            // A child of `fork` comes to no other closure, as in `stages`.
            let Some(mut item) = without_children(|| items.next()) else {
                return Ok(None);
            };
            let len = fill(&mut item, pinned)?;
            Ok(Some((item, len)))
        })
    }

    /// Begins on the host, like [`source`](Self::source), for input whose end is found only by
    /// reading. `read` writes the next item into pinned memory of `capacity` elements. It returns
    /// the value that travels with the data, and how many elements it has written; `None` at the
    /// end.
    pub fn reader<'env, T, I>(
        self,
        capacity: usize,
        read: impl FnMut(&mut [T]) -> Result<Option<(I, usize)>, BoxError> + Send + 'env,
    ) -> Stages<'env, D, I, PinnedBuffer<T, Idle<D>>>
    where
        D: 'env,
        T: Element + Send + 'env,
        I: Send + 'env,
    {
        let mut plan = self.plan();
        let stage = plan.stage(StageKind::Source, None);
        let ring = plan.pinned_ring(stage, capacity);
        let rings = plan.rings.clone();
        plan.between(capacity, |outbox| {
            (
                stage,
                Box::new(move |context| {
                    let done = stages::source(context, &ring, outbox, read);
                    rings.keep(ring);
                    done
                }),
            )
        })
    }

    /// Like [`source`](Self::source), on several threads and in order: the workers fill slots side
    /// by side, and later stages get the items in the order of the iterator. Example: read a file
    /// at offsets, with `pread`. To keep all workers busy, give the pipeline a buffer for each, and
    /// one more for the item that is being uploaded.
    ///
    /// The iterator runs under a lock, on the thread of the worker that takes the next item, so it
    /// should only say what is to be done. A worker that has filled an item out of turn takes the
    /// next item; it never waits for the earlier ones. If the iterator or `fill` fails on an item,
    /// earlier items still go through all stages; later items are given up.
    ///
    /// On a simulated device, modelled times may depend on which worker takes which item. The data
    /// and their order do not.
    ///
    /// # Hazards prevented
    /// [H14](cuda_rt_runtime::hazards#h14): a slot belongs to one worker until its item goes on,
    /// and to no worker before the last upload from the slot is done. Two workers never write the
    /// same memory.
    ///
    /// # Panics
    /// If `workers` is 0.
    ///
    /// Four threads read a file, and four write another, each frame at its own offset:
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    ///
    /// use cuda_rt::{Device, pipeline::Pipeline};
    ///
    /// # cuda_rt::streams! { Upload; Compute; Download; }
    /// const FRAME: usize = 1 << 12;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("cuda-rt-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let (input, output) = (folder.join("in"), folder.join("out"));
    /// # let frames: Vec<u8> = (0..16 * FRAME).map(|byte| (byte / 7) as u8).collect();
    /// # std::fs::write(&input, &frames)?;
    /// let gpu = Device::open_or_simulate()?;
    /// let (from, to) = (std::fs::File::open(&input)?, std::fs::File::create(&output)?);
    /// let offsets = (0..16).map(|frame| frame * FRAME as u64);
    /// let report = Pipeline::new(&gpu, 4)
    ///     .source_ordered(4, FRAME, offsets, |offset, pinned: &mut [u8]| {
    ///         from.read_exact_at(pinned, *offset)?; // side by side
    ///         Ok(pinned.len())
    ///     })
    ///     .upload::<Upload>()
    ///     .stage::<Compute>(|stream, _offset, input, output| stream.copy(input, output))
    ///     .download::<Download>()
    ///     .sink_unordered(4, |offset, data| Ok(to.write_all_at(data, offset)?))
    ///     .run()?;
    /// assert_eq!((report.items, report.stages[0].workers), (16, 4));
    /// assert_eq!(std::fs::read(&output)?, frames);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn source_ordered<'env, T, I>(
        self,
        workers: usize,
        capacity: usize,
        items: impl IntoIterator<Item = I, IntoIter: Send + 'env>,
        fill: impl Fn(&mut I, &mut [T]) -> Result<usize, BoxError> + Send + Sync + 'env,
    ) -> Stages<'env, D, I, PinnedBuffer<T, Idle<D>>>
    where
        D: 'env,
        T: Element + Send + 'env,
        I: Send + 'env,
    {
        let mut items = items.into_iter();
        self.reader_ordered(workers, capacity, move || Ok(items.next()), fill)
    }

    /// Like [`source_ordered`](Self::source_ordered), for input whose items are found one after
    /// another, for example by reading the line before each frame. `next` finds the next item, and
    /// returns `None` at the end; only one thread runs it at a time. The workers run `fill` side by
    /// side. If `next` fails, the items before go through all stages.
    ///
    /// # Hazards prevented
    /// As [`source_ordered`](Self::source_ordered).
    ///
    /// # Panics
    /// If `workers` is 0.
    ///
    /// ```
    /// use cuda_rt::{Device, pipeline::Pipeline};
    ///
    /// # cuda_rt::streams! { Upload; Download; }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gpu = Device::open_or_simulate()?;
    /// // Each item begins with a byte that says how many bytes follow.
    /// let input = [2, 10, 11, 1, 20, 3, 30, 31, 32];
    /// let (mut place, mut got) = (0, Vec::new());
    /// Pipeline::new(&gpu, 3)
    ///     .reader_ordered(
    ///         3,
    ///         8,
    ///         || {
    ///             let Some(&len) = input.get(place) else { return Ok(None) };
    ///             let item = place + 1..place + 1 + usize::from(len);
    ///             place = item.end;
    ///             Ok(Some(item)) // where it is
    ///         },
    ///         |item, pinned: &mut [u8]| {
    ///             pinned[..item.len()].copy_from_slice(&input[item.clone()]);
    ///             Ok(item.len())
    ///         },
    ///     )
    ///     .upload::<Upload>()
    ///     .download::<Download>()
    ///     .sink(|_item, data| {
    ///         got.push(data.to_vec());
    ///         Ok(())
    ///     })
    ///     .run()?;
    /// assert_eq!(got, [vec![10, 11], vec![20], vec![30, 31, 32]]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn reader_ordered<'env, T, I>(
        self,
        workers: usize,
        capacity: usize,
        next: impl FnMut() -> Result<Option<I>, BoxError> + Send + 'env,
        fill: impl Fn(&mut I, &mut [T]) -> Result<usize, BoxError> + Send + Sync + 'env,
    ) -> Stages<'env, D, I, PinnedBuffer<T, Idle<D>>>
    where
        D: 'env,
        T: Element + Send + 'env,
        I: Send + 'env,
    {
        assert!(workers > 0, "a source needs at least one worker");
        let mut plan = self.plan();
        let stage = plan.stage(StageKind::Source, None);
        let ring = plan.pinned_ring(stage, capacity);
        let rings = plan.rings.clone();
        plan.between_workers(capacity, |outbox| {
            let all = Arc::new((SourceWorkers::new(ring, next, outbox), fill));
            let worker = move |_| {
                let (all, rings) = (Arc::clone(&all), rings.clone());
                let body: Body<'env, D> = Box::new(move |context| {
                    let (workers, fill) = &*all;
                    let done = workers.run(context, fill);
                    workers.keep_ring(&rings);
                    done
                });
                (stage, body)
            };
            (0..workers).map(worker)
        })
    }

    /// Begins on the device: `body` enqueues work on the stream `S` that fills device memory of
    /// `capacity` elements, and returns how many it fills. Nothing is uploaded. Otherwise like
    /// [`source`](Self::source).
    pub fn generate<'env, S, T, I>(
        self,
        capacity: usize,
        items: impl IntoIterator<Item = I, IntoIter: Send + 'env>,
        mut body: impl FnMut(&Stream<S>, &I, &mut DeviceSlice<T, S>) -> Result<usize> + Send + 'env,
    ) -> Stages<'env, D, I, DeviceBuffer<T, Idle<D>>>
    where
        D: 'env,
        S: NamedStream<Device = D> + 'env,
        T: Element + Send + 'env,
        I: Send + 'env,
    {
        let mut plan = self.plan();
        let stage = plan.stage(StageKind::Generate, Some(S::NAME));
        let stream = plan.stream::<S>(stage);
        let ring = plan.device_ring(stage, stream.as_ref(), capacity);
        let rings = plan.rings.clone();
        let items = items.into_iter();
        plan.between(capacity, |outbox| {
            let body = on_stream(stream, move |context, stream| {
                let each = |stream: &Stream<S>, item: &I, output: &mut DeviceBuffer<T, S>| {
                    body(stream, item, output)
                };
                let done = stages::generate(context, stream, items, (&ring, capacity), outbox, each);
                rings.keep(ring);
                done
            });
            (stage, body)
        })
    }
}
