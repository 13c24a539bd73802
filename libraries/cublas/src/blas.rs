//! [`Blas`]: cuBLAS on one stream.

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_rt_runtime::driver::{DeviceAddress, RawStream};
use cuda_rt_runtime::observability::{HeldEvents, hold_events};
use cuda_rt_runtime::{Captured, DeviceBuffer, Live, Stream, StreamTag};

use crate::element::Precision;
use crate::error::{BlasError, Result};
use crate::ffi::{self, Cublas, cublasHandle_t, cublasPointerMode_t};
use crate::handle::{Setting, SharedHandle};

/// cuBLAS on the stream `S`. Each call is enqueued there, takes memory of this stream only, and
/// returns before it has run.
///
/// It has a handle of cuBLAS (`cublasCreate`) and a workspace of its own (`cublasSetWorkspace`), in
/// the order of the stream. So calls on several streams share nothing. Threads may share a `Blas`:
/// their calls run in the order in which they were made, as all work of the stream.
///
/// When it is dropped, its workspace is freed in the order of the stream, and its handle waits for
/// the next `Blas` of the GPU. Handles are never destroyed, because `cublasDestroy` waits for the
/// device, and would end memory that a graph may use.
///
/// # Hazards prevented
/// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03) (memory of another
/// stream is no argument), [H11](cuda_rt_runtime::hazards#h11),
/// [H21](cuda_rt_runtime::hazards#h21) (the workspace under pending calls),
/// [H22](cuda_rt_runtime::hazards#h22), [H25](cuda_rt_runtime::hazards#h25),
/// [H29](cuda_rt_runtime::hazards#h29) (an output that is an input),
/// [H36](cuda_rt_runtime::hazards#h36), [H39](cuda_rt_runtime::hazards#h39).
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt_cublas::{Blas, Matrix};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// # let a = compute.alloc_from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// # let b = compute.alloc_from_slice(&[1.0_f32, 0.0, 0.0, 1.0, 1.0, 1.0])?;
/// let blas = Blas::new(&compute)?;
/// let c = blas.multiply(Matrix::new(&a, 2, 3), Matrix::new(&b, 3, 2))?; // 2 x 2, row by row
/// assert_eq!(compute.copy_to_vec(&c)?, [4.0, 5.0, 10.0, 11.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Blas<S: StreamTag> {
    pub(crate) stream: Stream<S>,
    pub(crate) engine: Engine<S>,
    pub(crate) precision: Precision,
}

/// What computes.
pub(crate) enum Engine<S: StreamTag> {
    /// Functions on the CPU, in the order of the simulated device.
    Simulated,
    Library(Library<S>),
}

/// # Invariants
/// BLAS-LIBRARY-1. `handle` is of the device of `S`.
/// BLAS-LIBRARY-2. `workspace` is memory of `S`, so that its uses and its free are in the order of
/// `S`. No other value has `owner`.
pub(crate) struct Library<S: StreamTag> {
    owner: u64,
    handle: Arc<SharedHandle>,
    workspace: Mutex<DeviceBuffer<MaybeUninit<u8>, S>>,
}

/// A locked workspace. Events wait until the lock is free: a subscriber may call this `Blas`.
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

/// With as much workspace no function fails for want of it, says cuBLAS' documentation.
const LEAST_WORKSPACE: usize = 16 << 10;

/// The workspace that cuBLAS' documentation recommends: 32 MiB since Hopper, 4 MiB before.
fn recommended_workspace((major, _): (u32, u32)) -> usize {
    if major >= 9 { 32 << 20 } else { 4 << 20 }
}

impl<S: StreamTag> fmt::Debug for Blas<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match &self.engine {
            Engine::Simulated => "simulated",
            Engine::Library(_) => "cuBLAS",
        };
        f.debug_struct("Blas")
            .field("stream", &self.stream)
            .field("engine", &engine)
            .field("precision", &self.precision)
            .finish()
    }
}

impl<S: StreamTag> Blas<S> {
    /// cuBLAS on this stream, with the workspace that NVIDIA recommends for the GPU: 32 MiB since
    /// Hopper, 4 MiB before (`cublasCreate`, `cublasSetStream`, `cublasSetWorkspace`).
    ///
    /// The first call in a process loads the library. It may take a second; a handle that an
    /// earlier `Blas` left costs nothing. On GPUs the library is `libcublas.so.13`, `.12` or `.11`
    /// (`cublas64_13.dll` and so on), where the system's loader finds it, or the file that the
    /// environment variable `CUDA_RT_CUBLAS` names when the process starts. On simulated devices
    /// the same calls run on the CPU.
    ///
    /// # Errors
    /// [`BlasError::Library`] if cuBLAS is not installed; [`BlasError::Version`] if it is older
    /// than CUDA 11; [`BlasError::Status`]; [`BlasError::Runtime`] if there is no memory for the
    /// workspace.
    #[track_caller]
    pub fn new(stream: &Stream<S>) -> Result<Self>
    where
        S::Device: Live,
    {
        let bytes = recommended_workspace(stream.device().properties().compute_capability);
        Self::with_workspace(stream, bytes)
    }

    /// As [`new`](Self::new), with a workspace of this length in bytes, and at least 16 KiB. Some
    /// products are slower with less. Simulated devices need none, and allocate none.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let small = cuda_rt_cublas::Blas::with_workspace(&compute, 1 << 20)?;
    /// # drop(small);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn with_workspace(stream: &Stream<S>, bytes: usize) -> Result<Self>
    where
        S::Device: Live,
    {
        let gpu = stream.device();
        if gpu.is_simulated() {
            if cfg!(not(feature = "simulator")) {
                return Err(BlasError::NoSimulator);
            }
            return Ok(Self::from_parts(stream, Engine::Simulated, Precision::Full));
        }
        let ordinal = gpu.properties().ordinal;
        let take = |_: RawStream| SharedHandle::take(ordinal);
        // SAFETY: the call makes a handle, or takes one, and enqueues nothing.
        let handle = unsafe { stream.foreign("cublasCreate").enqueue(take) }??;
        // BLAS-LIBRARY-1: the driver has made the device's context current for `take`.
        let library = Library::new(stream, Arc::new(handle), bytes.max(LEAST_WORKSPACE))?;
        Ok(Self::from_parts(
            stream,
            Engine::Library(library),
            Precision::Full,
        ))
    }

    fn from_parts(stream: &Stream<S>, engine: Engine<S>, precision: Precision) -> Self {
        Self {
            stream: stream.clone(),
            engine,
            precision,
        }
    }

    /// The same cuBLAS on a stream of a capture, for the body of
    /// [`Stream::capture`](cuda_rt_runtime::Stream::capture): its calls become work of the graph.
    /// It shares the handle, and has a workspace that each launch allocates and frees. So the graph
    /// allocates, and [`Graph::update`](cuda_rt_runtime::Graph::update) cannot change it on a GPU.
    ///
    /// # Errors
    /// [`BlasError::Runtime`] if the workspace cannot be allocated.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cublas::{Blas, Matrix, MatrixMut};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let blas = Blas::new(&compute)?;
    /// let a = compute.alloc_from_slice(&[1.0_f32, 1.0, 1.0, 0.0])?;
    /// let c = compute.alloc_from_slice(&[1.0_f32, 0.0, 0.0, 1.0])?;
    /// let next = compute.alloc_zeroed::<f32>(4)?;
    ///
    /// let mut graph = compute.capture((a, c, next), |stream, (a, mut c, mut next)| {
    ///     let blas = blas.captured(stream)?;
    ///     let (a, before) = (Matrix::new(&a, 2, 2), Matrix::new(&c, 2, 2));
    ///     blas.gemm(1.0, a, before, 0.0, MatrixMut::new(&mut next, 2, 2))?;
    ///     stream.copy(&next, &mut c)
    /// })?;
    /// for _ in 0..5 {
    ///     graph.launch(&compute)?; // c = a·c
    /// }
    /// let (_, c, _) = graph.into_inner();
    /// assert_eq!(compute.copy_to_vec(&c)?, [8.0, 5.0, 5.0, 3.0]); // Fibonacci's numbers
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn captured<'g, N: StreamTag<Device = S::Device>>(
        &self,
        stream: &Stream<Captured<'g, N>>,
    ) -> Result<Blas<Captured<'g, N>>> {
        let engine = match &self.engine {
            Engine::Simulated => Engine::Simulated,
            Engine::Library(library) => {
                let bytes = library.workspace().len();
                // BLAS-LIBRARY-1: the capture is of a stream of the same device.
                Engine::Library(Library::new(stream, Arc::clone(&library.handle), bytes)?)
            }
        };
        Ok(Blas::from_parts(stream, engine, self.precision))
    }

    /// Computes later products of `f32` in this way.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cublas::{Blas, Precision};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let mut fast = Blas::new(&compute)?;
    /// fast.set_precision(Precision::Tf32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// The version of cuBLAS as it counts itself (`cublasGetVersion`), for example 130002. `None`
    /// on simulated devices.
    ///
    /// # Errors
    /// [`BlasError::Status`].
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let version = cuda_rt_cublas::Blas::new(&compute)?.version()?;
    /// assert_eq!(version.is_none(), gpu.is_simulated());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn version(&self) -> Result<Option<i32>> {
        match &self.engine {
            Engine::Simulated => Ok(None),
            Engine::Library(library) => library.handle.lock().version().map(Some),
        }
    }
}

impl<S: StreamTag> Library<S> {
    /// BLAS-LIBRARY-1 must hold for the handle.
    #[track_caller]
    fn new(stream: &Stream<S>, handle: Arc<SharedHandle>, bytes: usize) -> Result<Self> {
        static OWNERS: AtomicU64 = AtomicU64::new(0);
        Ok(Self {
            owner: OWNERS.fetch_add(1, Ordering::Relaxed),
            handle,
            workspace: Mutex::new(stream.alloc_uninit::<u8>(bytes)?),
        })
    }

    /// The workspace, for one call, which states that it writes it.
    pub(crate) fn workspace(&self) -> Workspace<'_, S> {
        let held = hold_events();
        Workspace {
            locked: self.workspace.lock().unwrap_or_else(PoisonError::into_inner),
            _held: held,
        }
    }

    /// Makes one call of cuBLAS on `stream`, with the handle set to it and to the workspace.
    ///
    /// # Safety
    /// `stream` is `S`. The workspace at this address is [`workspace`](Self::workspace), which the
    /// caller has locked, and stated as written.
    pub(crate) unsafe fn make(
        &self,
        during: &'static str,
        stream: RawStream,
        (workspace, workspace_bytes): (DeviceAddress, usize),
        mode: cublasPointerMode_t,
        call: impl FnOnce(&Cublas, cublasHandle_t) -> Result<()>,
    ) -> Result<()> {
        let setting = Setting {
            owner: self.owner,
            stream,
            workspace,
            workspace_bytes,
        };
        let mut held = self.handle.lock();
        // SAFETY: BLAS-LIBRARY-1 and BLAS-LIBRARY-2: the stream is live, because `Blas` keeps it,
        // and the workspace is memory of it. `owner` stands for both.
        let (cublas, handle) = unsafe { held.set(during, setting, mode) }?;
        call(cublas, handle)?;
        held.note_call();
        Ok(())
    }
}

/// Numbers that cuBLAS reads before its call returns.
pub(crate) const ON_HOST: cublasPointerMode_t = ffi::CUBLAS_POINTER_MODE_HOST;
/// Numbers that cuBLAS writes in the order of the stream.
pub(crate) const ON_DEVICE: cublasPointerMode_t = ffi::CUBLAS_POINTER_MODE_DEVICE;

/// A pointer to device memory.
pub(crate) fn pointer<T>(address: DeviceAddress) -> *mut T {
    ptr::without_provenance_mut(address.0 as usize)
}

/// A pointer to a number of the host.
pub(crate) fn number<T>(value: &T) -> *const c_void {
    ptr::from_ref(value).cast()
}
