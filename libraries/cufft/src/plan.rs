//! [`Plan`]: transforms of one shape by cuFFT on one stream.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_rt_runtime::driver::{DeviceAddress, RawStream};
use cuda_rt_runtime::observability::{HeldEvents, hold_events};
use cuda_rt_runtime::{Captured, DeviceBuffer, Live, Stream, StreamTag};

use crate::element::{Real, Transform};
use crate::error::{FftError, Result, refusal};
use crate::ffi::{Cufft, cufftHandle};
use crate::handle::{Setting, SharedHandle};
use crate::shape::{Shape, Transforms};

/// Fourier transforms of one [`Shape`], from elements `I` to elements `O`, on the stream `S`. Each
/// call is enqueued there, takes memory of this stream only, and returns before it has run.
///
/// | | methods |
/// |---|---|
/// | `Plan<Complex<R>, Complex<R>, S>` | `forward`, `inverse`, and each `_in_place` |
/// | `Plan<R, Complex<R>, S>` | `forward` |
/// | `Plan<Complex<R>, R, S>` | `inverse`, which destroys its input |
///
/// Transforms are not normalised, as in cuFFT: forward and back again gives the signal times the
/// number of its elements. To divide is the program's work:
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt_cufft::{Complex, Plan, Shape};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let forward = Plan::<f32, Complex<f32>, _>::new(&compute, Shape::line(4))?;
/// let back = Plan::<Complex<f32>, f32, _>::new(&compute, Shape::line(4))?;
///
/// let mut signal = compute.alloc_from_slice(&[1.0_f32, 2.0, 3.0, 4.0])?;
/// let mut spectrum = compute.alloc_zeroed::<Complex<f32>>(forward.output_len())?;
/// forward.forward(&signal, &mut spectrum)?;
/// back.inverse(&mut spectrum, &mut signal)?;
/// let signal: Vec<f32> = compute.copy_to_vec(&signal)?;
/// let signal: Vec<f32> = signal.into_iter().map(|value| value / 4.0).collect();
/// assert_eq!(signal, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It has a handle of cuFFT (`cufftCreate`, `cufftMakePlanMany64`) and a work area of its own
/// (`cufftSetAutoAllocation`, `cufftSetWorkArea`), in the order of the stream. So calls on several
/// streams share no memory that is written. Threads may share a `Plan`: their calls run in the
/// order in which they were made, as all work of the stream.
///
/// When it is dropped, its work area is freed in the order of the stream, and its handle waits for
/// the next `Plan` of the same shape on the GPU. Handles are never destroyed, because
/// `cufftDestroy` would end memory that a graph or pending work may use. So a process has, for each
/// shape, as many handles as it had plans of this shape at once.
///
/// # Hazards prevented
/// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03) (memory of another
/// stream is no argument), [H11](cuda_rt_runtime::hazards#h11),
/// [H21](cuda_rt_runtime::hazards#h21) (the work area under pending calls),
/// [H22](cuda_rt_runtime::hazards#h22), [H25](cuda_rt_runtime::hazards#h25),
/// [H29](cuda_rt_runtime::hazards#h29) (an output that is an input),
/// [H36](cuda_rt_runtime::hazards#h36), [H39](cuda_rt_runtime::hazards#h39).
pub struct Plan<I, O, S: StreamTag> {
    pub(crate) stream: Stream<S>,
    pub(crate) engine: Engine<S>,
    pub(crate) transforms: Transforms,
    elements: PhantomData<fn(I) -> O>,
}

/// What computes.
pub(crate) enum Engine<S: StreamTag> {
    /// Functions on the CPU, in the order of the simulated device.
    Simulated,
    Library(Library<S>),
}

/// # Invariants
/// FFT-LIBRARY-1. `handle` is of the device of `S`, and planned for the plan's `transforms`.
/// FFT-LIBRARY-2. `workspace` is memory of `S`, so that its uses and its free are in the order of
/// `S`. It is as long as the handle's transforms need. No other value has `owner`.
pub(crate) struct Library<S: StreamTag> {
    owner: u64,
    handle: Arc<SharedHandle>,
    workspace: Mutex<DeviceBuffer<MaybeUninit<u8>, S>>,
}

impl<I, O, S: StreamTag> fmt::Debug for Plan<I, O, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match &self.engine {
            Engine::Simulated => "simulated",
            Engine::Library(_) => "cuFFT",
        };
        f.debug_struct("Plan")
            .field("stream", &self.stream)
            .field("engine", &engine)
            .field("transforms", &self.transforms)
            .finish()
    }
}

impl<I: Transform<O>, O, S: StreamTag> Plan<I, O, S> {
    /// Transforms of this shape on this stream (`cufftCreate`, `cufftSetAutoAllocation`,
    /// `cufftMakePlanMany64`). May block the host while cuFFT plans.
    ///
    /// The first call in a process loads the library. It may take a second; a handle that an
    /// earlier `Plan` of this shape left costs nothing. On GPUs the library is `libcufft.so.12`,
    /// `.11` or `.10` (`cufft64_12.dll` and so on), where the system's loader finds it, or the file
    /// that the environment variable `CUDA_RT_CUFFT` names when the process starts. On simulated
    /// devices the same transforms run on the CPU.
    ///
    /// # Errors
    /// [`FftError::Shape`], before anything else is done: a number is 0, or too large, or elements
    /// that are written overlap. [`FftError::Library`] if cuFFT is not installed;
    /// [`FftError::Version`] if it is older than CUDA 11; [`FftError::Status`], for example of a
    /// size that cuFFT does not transform; [`FftError::Runtime`] if there is no memory for the work
    /// area.
    #[track_caller]
    pub fn new(stream: &Stream<S>, shape: Shape) -> Result<Self>
    where
        S::Device: Live,
    {
        let refused = refusal("Plan::new");
        let transforms = Transforms::new(&shape, I::KIND.0, size_of::<I::Real>()).map_err(refused)?;
        let gpu = stream.device();
        if gpu.is_simulated() {
            if cfg!(not(feature = "simulator")) {
                return Err(FftError::NoSimulator);
            }
            return Ok(Self::from_parts(stream, Engine::Simulated, transforms));
        }
        let ordinal = gpu.properties().ordinal;
        let description = transforms.describe(I::Real::FUNCTIONS.number(I::KIND.0));
        let take = |_: RawStream| SharedHandle::take(ordinal, description);
        // SAFETY: the call makes a handle, or takes one, and enqueues nothing on the stream. What
        // cuFFT writes to a new handle's own memory is done when it returns.
        let handle = unsafe { stream.foreign("cufftMakePlanMany64").enqueue(take) }??;
        // FFT-LIBRARY-1: the driver has made the device's context current for `take`.
        let library = Library::new(stream, Arc::new(handle))?;
        Ok(Self::from_parts(stream, Engine::Library(library), transforms))
    }

    /// The same plan on a stream of a capture, for the body of
    /// [`Stream::capture`](cuda_rt_runtime::Stream::capture): its calls become work of the graph.
    /// It shares the handle, and has a work area that each launch allocates and frees. So the graph
    /// allocates, and [`Graph::update`](cuda_rt_runtime::Graph::update) cannot change it on a GPU.
    ///
    /// # Errors
    /// [`FftError::Runtime`] if the work area cannot be allocated.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cufft::{Complex, Plan, Shape};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let plan = Plan::<Complex<f32>, Complex<f32>, _>::new(&compute, Shape::line(4))?;
    /// let signal = compute.alloc_from_slice(&[1.0_f32, 2.0, 3.0, 4.0].map(Complex::from))?;
    ///
    /// let mut graph = compute.capture(signal, |stream, mut signal| {
    ///     let plan = plan.captured(stream)?;
    ///     Ok(plan.forward_in_place(&mut signal)?)
    /// })?;
    /// graph.launch(&compute)?;
    /// graph.launch(&compute)?; // twice: the signal backwards, times its length
    /// let signal = compute.copy_to_vec(&graph.into_inner())?;
    /// assert_eq!(signal, [4.0, 16.0, 12.0, 8.0].map(Complex::from));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn captured<'g, N: StreamTag<Device = S::Device>>(
        &self,
        stream: &Stream<Captured<'g, N>>,
    ) -> Result<Plan<I, O, Captured<'g, N>>> {
        let engine = match &self.engine {
            Engine::Simulated => Engine::Simulated,
            // FFT-LIBRARY-1: the capture is of a stream of the same device.
            Engine::Library(library) => Engine::Library(Library::new(stream, Arc::clone(&library.handle))?),
        };
        Ok(Plan::from_parts(stream, engine, self.transforms))
    }

    /// Elements that the input needs: up to the last one that is read.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cufft::{Complex, Placement, Plan, Shape};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// // Windows of 8 elements, each of which begins 4 elements behind the one before.
    /// let windows = Shape::line(8).batch(3).input(Placement::new().distance(4));
    /// let plan = Plan::<f32, Complex<f32>, _>::new(&compute, windows)?;
    /// assert_eq!((plan.input_len(), plan.output_len()), (2 * 4 + 8, 3 * 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn input_len(&self) -> usize {
        self.transforms.input.reach
    }

    /// Elements that the output needs: up to the last one that is written.
    pub fn output_len(&self) -> usize {
        self.transforms.output.reach
    }

    /// The version of cuFFT as it counts itself (`cufftGetVersion`), for example 12000. `None` on
    /// simulated devices.
    ///
    /// # Errors
    /// [`FftError::Status`].
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cufft::{Complex, Plan, Shape};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let plan = Plan::<f32, Complex<f32>, _>::new(&compute, Shape::line(256))?;
    /// assert_eq!(plan.version()?.is_none(), gpu.is_simulated());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn version(&self) -> Result<Option<i32>> {
        match &self.engine {
            Engine::Simulated => Ok(None),
            Engine::Library(library) => library.handle.lock().version().map(Some),
        }
    }
}

impl<I, O, S: StreamTag> Plan<I, O, S> {
    fn from_parts(stream: &Stream<S>, engine: Engine<S>, transforms: Transforms) -> Self {
        Self {
            stream: stream.clone(),
            engine,
            transforms,
            elements: PhantomData,
        }
    }
}

/// A locked work area. Events wait until the lock is free: a subscriber may call this plan.
pub(crate) struct Workspace<'a, S: StreamTag> {
    locked: MutexGuard<'a, DeviceBuffer<MaybeUninit<u8>, S>>,
    // Dropped after the lock, by the order of the fields.
    _held: HeldEvents,
}

impl<S: StreamTag> Deref for Workspace<'_, S> {
    type Target = DeviceBuffer<MaybeUninit<u8>, S>;

    fn deref(&self) -> &Self::Target {
        &self.locked
    }
}

impl<S: StreamTag> DerefMut for Workspace<'_, S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.locked
    }
}

impl<S: StreamTag> Library<S> {
    /// FFT-LIBRARY-1 must hold for the handle.
    #[track_caller]
    fn new(stream: &Stream<S>, handle: Arc<SharedHandle>) -> Result<Self> {
        static OWNERS: AtomicU64 = AtomicU64::new(0);
        // Transforms that need no work area get one too, so that the handle never has that of
        // another plan.
        let bytes = handle.work_bytes().max(1);
        Ok(Self {
            owner: OWNERS.fetch_add(1, Ordering::Relaxed),
            handle,
            workspace: Mutex::new(stream.alloc_uninit::<u8>(bytes)?),
        })
    }

    /// The work area, for one call, which states that it writes it.
    pub(crate) fn workspace(&self) -> Workspace<'_, S> {
        let held = hold_events();
        Workspace {
            locked: self.workspace.lock().unwrap_or_else(PoisonError::into_inner),
            _held: held,
        }
    }

    /// Makes one call of cuFFT on `stream`, with the handle set to it and to the work area.
    ///
    /// # Safety
    /// `stream` is `S`. The work area at this address is [`workspace`](Self::workspace), which the
    /// caller has locked, and stated as written.
    pub(crate) unsafe fn make(
        &self,
        during: &'static str,
        stream: RawStream,
        workspace: DeviceAddress,
        call: impl FnOnce(&Cufft, cufftHandle) -> Result<()>,
    ) -> Result<()> {
        let setting = Setting {
            owner: self.owner,
            stream,
            workspace,
        };
        let mut held = self.handle.lock();
        // SAFETY: FFT-LIBRARY-1 and FFT-LIBRARY-2: the stream is live, because `Plan` keeps it, and
        // the work area is memory of it, and long enough. `owner` stands for both.
        let (cufft, handle) = unsafe { held.set(during, setting) }?;
        call(cufft, handle)?;
        held.note_call();
        Ok(())
    }
}
