//! [`AnyStream`]: streams that are known at run time, and can be held in structs.

use std::any::type_name;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::device::core::DeviceCore;
use crate::device::run_time_streams::StreamState;
use crate::device::{AnyDevice, Device};
use crate::error::{During, Error, Result};
use crate::order::stream_ref::StreamRef;
use crate::stream::Stream;
use crate::stream::pool::Pooled;
use crate::tag::{DeviceTag, Gpu, Live, NamedStream, Place, Priority, Scoped, StreamTag};
use cuda_rt_driver::Hint;

/// A stream that is known at run time, for one closure; the brand `'id` is fresh at each call of
/// [`AnyStream::run`].
pub struct Branded<'id, D = Gpu<0>>(PhantomData<(fn(&'id ()) -> &'id (), fn(D) -> D)>);
// SAFETY: `AnyStream::run` and `run_on` give the stream's own device the tag `D`.
unsafe impl<D: DeviceTag> Place for Branded<'_, D> {
    type Device = D;
}
// SAFETY: `AnyStream::run` and `run_on` make one stream for a closure that is generic over `'id`,
// so no other stream has the same brand.
unsafe impl<D: DeviceTag> StreamTag for Branded<'_, D> {}

/// A stream whose handles and bundles may outlive the code that sees its tag: it lives as long as
/// its device. Adopted streams do not: their owner may destroy them.
///
/// # Safety
/// The device's core keeps the stream live until the core is dropped.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may end before what it would keep",
    label = "this stream keeps nothing",
    note = "H23: a stream of another library is adopted for one closure: hand over what must leave it: `stream.release(bundle)?`",
    note = "H25: what is inside a capture stays in its graph: keep the graph, with `stream.keep_graph(graph)`"
)]
pub unsafe trait Lasting: StreamTag {}
// SAFETY: CORE-1: the core keeps the streams of tags.
unsafe impl<S: NamedStream> Lasting for S {}
// SAFETY: CORE-1: the core keeps the streams that were created at run time, and their tags.
unsafe impl<D: DeviceTag> Lasting for Branded<'_, D> {}
// SAFETY: CORE-1: the core keeps the streams of pools.
unsafe impl<D: DeviceTag> Lasting for Pooled<'_, D> {}

/// A stream that is known at run time: N workers have N of them, in a `Vec`, a struct or a map.
///
/// [`Device::create_stream`] makes one, with a CUDA stream of its own. [`run`](Self::run) lends it
/// to a closure as a [`Stream`], where all of the typed API works and is checked by the compiler.
/// What leaves the closure is [`Kept`](crate::Kept): a bundle that remembers its stream. The stream
/// is compared when the bundle is used again. On its own stream that costs a comparison; on another
/// stream it is an error that names both, or an ordered handoff, as the caller chooses:
///
/// - **On its own stream** every use is a comparison, and no call of the driver:
///   [`open`](Stream::open), [`view`](Stream::view) and [`by_ref`](Stream::by_ref), also with
///   `_ordered`.
/// - **On another stream** `open`, `view` and `by_ref` return [`Error::OtherStream`].
/// - [`open_ordered`](Stream::open_ordered) takes over from another stream of the device: an event
///   and a wait.
/// - [`view_ordered`](Stream::view_ordered) and [`by_ref_ordered`](Stream::by_ref_ordered) borrow
///   from another stream of the device: a loan, of two events and two waits.
///
/// Static tags ([`streams!`](crate::streams)) stay the first choice: the compiler compares them.
/// Both mix: [`Stream::to_any`] is a static stream as a value, and a static stream opens what
/// another stream keeps.
///
/// A handle is cheap to clone and usable from any thread. Two handles are equal if they are one
/// stream. When the last handle and the last bundle of a stream are gone, the device lends its CUDA
/// stream to the next [`create_stream`](Device::create_stream): a program that makes and drops
/// 10,000 streams, one after another, has one. Leaking a handle keeps the CUDA stream from being
/// lent again, and does no other harm ([H22](crate::hazards#h22)).
///
/// ```
/// use cuda_rt::{AnyDevice, AnyStream, DeviceBuffer, Error, Idle, Kept, Priority};
///
/// struct Worker {
///     stream: AnyStream,
///     sums: Kept<DeviceBuffer<f32, Idle<AnyDevice>>>,
/// }
///
/// let gpu = AnyDevice::open_or_simulate(0)?;
/// let mut workers = Vec::new();
/// for index in 0..4 {
///     let stream = gpu.create_stream(&format!("worker {index}"), Priority::Low)?;
///     let sums = stream.run(|s| Ok::<_, Error>(s.keep(s.alloc_zeroed::<f32>(64)?)))?;
///     workers.push(Worker { stream, sums });
/// }
/// for Worker { stream, sums } in &mut workers {
///     stream.run(|s| s.fill(&mut s.view(sums)?, 1.0))?; // a comparison, and the fill
/// }
/// let [first, second, ..] = &mut workers[..] else { unreachable!() };
/// let wrong = first.stream.run(|s| s.fill(&mut s.view(&mut second.sums)?, 2.0));
/// assert!(matches!(wrong, Err(Error::OtherStream { .. })));
/// println!("{}", wrong.unwrap_err()); // names `worker 1` and `worker 0`
/// # Ok::<(), Error>(())
/// ```
//
// # Invariants
// ANY-STREAM-1. `state` is of a stream that `core` keeps, and that is not adopted.
#[derive(Clone)]
pub struct AnyStream {
    // Dropped before the core, to which it returns the stream.
    state: Arc<StreamState>,
    core: Arc<DeviceCore>,
}

impl fmt::Debug for AnyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyStream")
            .field("name", &self.name())
            .field("stream", &self.at().handle())
            .field("ordinal", &self.core.driver().properties().ordinal)
            .finish()
    }
}

/// Names the stream and its device, as errors do.
impl fmt::Display for AnyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}", self.name(), self.device())
    }
}

impl PartialEq for AnyStream {
    fn eq(&self, other: &Self) -> bool {
        self.at().id() == other.at().id()
    }
}

impl Eq for AnyStream {}

impl Hash for AnyStream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at().id().hash(state);
    }
}

impl<D: Live> Device<D> {
    /// A stream with a name that is chosen at run time (`cuStreamCreateWithPriority`,
    /// non-blocking). It is a CUDA stream of its own: no other holder gets it while a handle of it,
    /// or a bundle that it [keeps](Stream::keep), exists. A stream that its holders have returned
    /// is lent again, without a call of the driver; its earlier work then comes first. The name is
    /// for errors, the checker and timelines; names may repeat.
    ///
    /// # Errors
    /// [`Error::Driver`].
    ///
    /// ```
    /// use cuda_rt::Priority;
    ///
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let streams: Vec<_> = (0..3)
    ///     .map(|index| gpu.create_stream(&format!("worker {index}"), Priority::Low))
    ///     .collect::<Result<_, _>>()?;
    /// assert_eq!(streams[2].name(), "worker 2");
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn create_stream(&self, name: &str, priority: Priority) -> Result<AnyStream> {
        AnyStream::create(self.core(), name, priority, "Device::create_stream")
    }
}

impl AnyDevice {
    /// Like [`Device::create_stream`].
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn create_stream(&self, name: &str, priority: Priority) -> Result<AnyStream> {
        AnyStream::create(self.core(), name, priority, "AnyDevice::create_stream")
    }
}

impl AnyStream {
    fn create(core: &Arc<DeviceCore>, name: &str, priority: Priority, during: &'static str) -> Result<Self> {
        let state = core.run_time_stream(name, priority).during(during)?;
        let stream = state.at().handle();
        core.tools().hint(Hint::StreamName { stream, name });
        let core = Arc::clone(core);
        Ok(Self { state, core })
    }

    #[inline]
    pub(crate) fn at(&self) -> StreamRef {
        self.state.at()
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }

    /// The name that [`create_stream`](Device::create_stream) was given, or the tag of a static
    /// stream.
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// The device of this stream.
    pub fn device(&self) -> AnyDevice {
        AnyDevice::from_core(Arc::clone(&self.core))
    }

    /// Lends the stream to `body`, with brands of its own for the stream and for its device. In
    /// `body` all of the typed API works. Calls nothing of the driver.
    ///
    /// Buffers and the stream itself cannot leave `body` ([H23](crate::hazards#h23)); bundles come
    /// in and leave as [`Kept`](crate::Kept). Several threads may run closures on one stream at
    /// once: their work runs in the order of their calls. A call inside a call, on the same stream,
    /// gets a second brand of the same stream, which orders the work of both.
    ///
    /// ```
    /// # use cuda_rt::{AnyDevice, Error, Priority};
    /// let gpu = AnyDevice::open_or_simulate(0)?;
    /// let stream = gpu.create_stream("sums", Priority::High)?;
    /// let ones = stream.run(|s| {
    ///     let ones = s.init_filled(s.alloc_uninit::<u32>(256)?, 1)?;
    ///     s.copy_to_vec(&ones)
    /// })?;
    /// assert_eq!(ones, [1; 256]);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn run<T>(&self, body: impl for<'id> FnOnce(&Stream<Branded<'id, Scoped<'id>>>) -> T) -> T {
        self.with_branded(body)
    }

    /// Like [`run`](Self::run), on a device that has a tag. In `body` the device is `D`, so
    /// [`Handoff`](crate::Handoff)s of that device come in and leave: to and from streams of tags,
    /// to tasks that await them, and to the host. Calls nothing of the driver.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if `device` is not the device of this stream.
    ///
    /// ```
    /// # use cuda_rt::{Device, Error, Priority};
    /// # cuda_rt::streams! { pub Download; }
    /// let gpu = Device::open_or_simulate()?;
    /// let download = gpu.stream::<Download>()?;
    /// let worker = gpu.create_stream("worker", Priority::Low)?;
    ///
    /// let kept = worker.run(|s| Ok::<_, Error>(s.keep(s.alloc_zeroed::<f32>(1024)?)))?;
    /// // To a stream of a tag:
    /// let handoff = worker.run_on(&gpu, |s| s.release(s.open(kept)?))??;
    /// let frame = download.acquire(handoff)?;
    /// // And back:
    /// let handoff = download.release(frame)?;
    /// let kept = worker.run_on(&gpu, |s| Ok::<_, Error>(s.keep(s.acquire(handoff)?)))??;
    /// # drop(kept);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn run_on<D: Live, T>(
        &self,
        device: &Device<D>,
        body: impl for<'id> FnOnce(&Stream<Branded<'id, D>>) -> T,
    ) -> Result<T> {
        if !Arc::ptr_eq(&self.core, device.core()) {
            return Err(self.other_device(device.core(), "AnyStream::run_on"));
        }
        Ok(self.with_branded(body))
    }

    /// Lends the stream with the tag `S`, which names this stream and its device. The lent value
    /// shares this value's reference to the device: nothing is counted.
    #[inline]
    fn with_branded<S, T>(&self, body: impl FnOnce(&Stream<S>) -> T) -> T {
        // SAFETY: the pointer is from an `Arc`. The second `Arc` is never dropped, and never leaves
        // this function: `body` gets a reference. `self` owns its count meanwhile.
        let core = unsafe { Arc::from_raw(Arc::as_ptr(&self.core)) };
        let stream = ManuallyDrop::new(Stream::from_parts(self.at(), core));
        body(&stream)
    }

    /// Blocks the host until all work of this stream is done, as [`Stream::synchronize`] does
    /// (`cuStreamSynchronize`).
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.run(|stream| stream.synchronize())
    }

    /// Whether all work that this stream holds now is done, as [`Stream::is_done`] says
    /// (`cuStreamQuery`).
    ///
    /// # Errors
    /// As [`Stream::is_done`].
    pub fn is_done(&self) -> Result<bool> {
        self.run(|stream| stream.is_done())
    }

    /// The error of a use, by the call `during`, on a device that is not this stream's.
    #[cold]
    pub(super) fn other_device(&self, asked: &Arc<DeviceCore>, during: &'static str) -> Error {
        Error::OtherDevice {
            during,
            owner: self.to_string().into(),
            asked: AnyDevice::from_core(Arc::clone(asked)).to_string().into(),
        }
    }
}

/// The name of a tag, without its path and parameters.
fn short_name<S>() -> &'static str {
    let path = type_name::<S>();
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}

impl<S: StreamTag> Stream<S> {
    /// This stream as a value without a tag, for structs that hold streams of run time too. It is
    /// the same CUDA stream: what it keeps is opened on `S` with no call of the driver.
    ///
    /// ```
    /// # use cuda_rt::{Device, Error};
    /// # cuda_rt::streams! { pub Compute; }
    /// let gpu = Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let any = compute.to_any();
    /// assert_eq!(any.name(), "Compute");
    /// let kept = any.run(|s| Ok::<_, Error>(s.keep(s.alloc_zeroed::<f32>(64)?)))?;
    /// let frame = compute.open(kept)?; // DeviceBuffer<f32, Compute>
    /// # drop(frame);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn to_any(&self) -> AnyStream
    where
        S: Lasting,
        S::Device: Live,
    {
        // ANY-STREAM-1: `Lasting` says that the core keeps the stream.
        AnyStream {
            state: self.core().stream_state(self.at(), short_name::<S>),
            core: Arc::clone(self.core()),
        }
    }

    /// The name and device of this stream, for errors.
    #[cold]
    pub(super) fn described(&self) -> Box<str> {
        let state = self.core().find_stream_state(self.at().id());
        let name = state.as_deref().map_or(short_name::<S>(), StreamState::name);
        format!("`{name}` of {}", AnyDevice::from_core(Arc::clone(self.core()))).into()
    }
}
