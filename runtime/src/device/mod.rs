//! [`Device`]: one physical or simulated GPU. `core` holds the state that its handles share, `call`
//! the steps of every call on it, `any` the devices that are found at run time, `simulated` the
//! calls that only simulated devices have.

mod any;
pub(crate) mod call;
pub(crate) mod core;
mod managed_memory;
mod memory_pools;
mod redundant_edges;
pub(crate) mod run_time_streams;
#[cfg(feature = "simulator")]
mod simulated;
mod write_combined_memory;

pub use any::AnyDevice;

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::core::DeviceCore;
use crate::error::{During, Error, OpenError, PinnedError, Refused, Result};
use crate::memory::{Element, PinnedBuffer};
use crate::observability;
use crate::order::clocks::Clocks;
use crate::stream::Stream;
use crate::tag::{DeviceTag, Gpu, Idle, Live, NamedDevice, NamedStream, Scoped, StreamTag};
use cuda_rt_driver::Race;
use cuda_rt_driver::{Backend, DriverError, DriverResult, DriverWithTools, Hint, MemoryInfo, Properties};

/// One GPU: a context with streams, memory and kernels of its own.
///
/// `D` names the instance. [`Device::open`] gives the process-wide instance of GPU 0; scoped
/// instances ([`simulated`](Device::simulated), [`for_each_gpu`](Device::for_each_gpu)) live for
/// one closure, and have a type of their own there ([`Scoped`]). A device is cheap to clone and
/// usable from any thread.
///
/// ```
/// use cuda_rt::Device;
/// use cuda_rt::simulator::SimConfig;
///
/// cuda_rt::streams! { pub Compute; }
///
/// // GPU 0, or a simulated device on a machine without one.
/// let gpu = Device::open_or_simulate()?;
/// println!("{}, {} bytes free", gpu.properties(), gpu.memory_info()?.free_bytes);
/// let compute = gpu.stream::<Compute>()?;
/// let mut data = compute.alloc_zeroed::<u32>(1024)?;
/// compute.fill(&mut data, 7)?;
/// gpu.synchronize()?; // all streams of the device
/// assert!(gpu.races().is_empty()); // the checker follows each simulated device
///
/// // A device of its own, for one closure: its values cannot leave it.
/// let sum = Device::simulated(SimConfig::new().seed(3), |gpu| {
///     let pinned = gpu.pinned_from(&[1_u32, 2, 3])?;
///     Ok::<u32, cuda_rt::Error>(pinned.iter().sum())
/// })??;
/// assert_eq!(sum, 6);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub struct Device<D = Gpu<0>> {
    core: Arc<DeviceCore>,
    tag: PhantomData<fn(D) -> D>,
}

impl<D> Clone for Device<D> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            tag: PhantomData,
        }
    }
}

impl<D> fmt::Debug for Device<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties = self.core.driver().properties();
        f.debug_struct("Device")
            .field("name", &properties.name)
            .field("ordinal", &properties.ordinal)
            .finish()
    }
}

/// What names an instance that lives as long as the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum InstanceKey {
    /// The GPU of this ordinal: `Gpu<N>`, and what was found by the ordinal at run time.
    Ordinal(usize),
    /// A tag of `devices!`.
    Tag(TypeId),
}

/// The instances that live as long as the process: one for each key, never replaced
/// (docs/soundness.md, obligation 1).
static INSTANCES: Mutex<Option<HashMap<InstanceKey, Arc<DeviceCore>>>> = Mutex::new(None);

/// The instance of `key`. The first call makes it; a failed call leaves nothing behind.
pub(crate) fn instance(
    key: InstanceKey,
    make: impl FnOnce() -> Result<Arc<dyn DriverWithTools>, OpenError>,
) -> Result<Arc<DeviceCore>, OpenError> {
    let _later = observability::later();
    // Entries are only inserted, so the map is consistent after a panic under the lock.
    let mut instances = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
    let instances = instances.get_or_insert_default();
    if let Some(core) = instances.get(&key) {
        return Ok(Arc::clone(core));
    }
    let core = prepared(make()?, "Device::open", Clocks::of_process())?;
    instances.insert(key, Arc::clone(&core));
    Ok(core)
}

/// A core over `driver`, for the call `during`. `clocks` are of one table with those of the devices
/// that it exchanges data with.
pub(crate) fn prepared(
    driver: Arc<dyn DriverWithTools>,
    during: &'static str,
    clocks: Clocks,
) -> Result<Arc<DeviceCore>, OpenError> {
    match DeviceCore::new(driver, clocks) {
        Ok(core) => {
            observability::opened(core.driver().properties());
            Ok(core)
        }
        Err(source) => {
            observability::failed(during, &source);
            Err(OpenError::Driver { during, source })
        }
    }
}

/// The error of a device that could not be opened.
pub(crate) fn no_gpu(source: DriverError) -> OpenError {
    observability::failed("Device::open", &source);
    OpenError::NoGpu(source)
}

#[cfg(feature = "cuda")]
fn cuda(ordinal: usize) -> DriverResult<Arc<dyn DriverWithTools>> {
    checked(cuda_rt_driver_cuda::CudaDriver::open(ordinal)?)
}

/// The driver, wrapped in a checker if `CUDA_RT_CHECK` is set and not 0. An error if the checker is
/// wanted, and was not built.
#[cfg(feature = "cuda")]
pub(crate) fn checked(driver: Arc<dyn DriverWithTools>) -> DriverResult<Arc<dyn DriverWithTools>> {
    let wanted = std::env::var_os("CUDA_RT_CHECK").is_some_and(|value| !value.is_empty() && value != "0");
    if !wanted {
        return Ok(driver);
    }
    #[cfg(feature = "checker")]
    let checked = Ok(cuda_rt_checker::Checked::over_with_others(driver, cuda_rt_checker::Check::Deny) as _);
    #[cfg(not(feature = "checker"))]
    let checked = Err(DriverError::with_detail(
        "CUDA_RT_CHECK",
        cuda_rt_driver::ErrorCode::NOT_SUPPORTED,
        "cuda-rt was built without its feature `checker`",
    ));
    checked
}

#[cfg(not(feature = "cuda"))]
fn cuda(_ordinal: usize) -> DriverResult<Arc<dyn DriverWithTools>> {
    Err(DriverError::with_detail(
        "cuInit",
        cuda_rt_driver::ErrorCode::NO_DEVICE,
        "cuda-rt was built without its feature `cuda`",
    ))
}

#[cfg(feature = "cuda")]
fn cuda_count() -> DriverResult<usize> {
    cuda_rt_driver_cuda::CudaDriver::count()
}

#[cfg(not(feature = "cuda"))]
fn cuda_count() -> DriverResult<usize> {
    cuda(0).map(|_| 0)
}

impl Device {
    /// Opens GPU 0 (`cuDevicePrimaryCtxRetain`). Every call, from every thread, returns the same
    /// instance. The first call blocks while CUDA starts.
    ///
    /// # Errors
    /// [`OpenError::NoGpu`] without a driver or a GPU, and [`OpenError::AlreadySimulated`] once
    /// [`open_or_simulate`](Self::open_or_simulate) has fallen back.
    ///
    /// ```
    /// use cuda_rt::{Device, OpenError};
    ///
    /// match Device::open() {
    ///     Ok(gpu) => println!("{}", gpu.properties()),
    ///     Err(OpenError::NoGpu(why)) => println!("there is no GPU here: {why}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), OpenError>(())
    /// ```
    pub fn open() -> Result<Self, OpenError> {
        Self::open_gpu::<0>()
    }

    /// Like [`open`](Self::open), for the GPU of ordinal `N`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_gpu<const N: usize>() -> Result<Device<Gpu<N>>, OpenError> {
        let core = instance(InstanceKey::Ordinal(N), || cuda(N).map_err(no_gpu))?;
        if core.driver().properties().backend == Backend::Simulated {
            return Err(OpenError::AlreadySimulated {
                tag: format!("Gpu<{N}>"),
            });
        }
        Ok(Device::from_core(core))
    }

    /// Binds the tag `D`, declared with [`devices!`](crate::devices), to the GPU `ordinal` for the
    /// rest of the process.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`OpenError::AlreadyBound`] if the tag is bound to another GPU.
    pub fn bind<D: NamedDevice>(ordinal: usize) -> Result<Device<D>, OpenError> {
        let core = instance(InstanceKey::Tag(TypeId::of::<D::Key>()), || {
            cuda(ordinal).map_err(no_gpu)
        })?;
        let bound = core.driver().properties().ordinal;
        if bound != ordinal {
            return Err(OpenError::AlreadyBound {
                tag: D::NAME,
                bound,
                asked: ordinal,
            });
        }
        Ok(Device::from_core(core))
    }

    /// Runs `body` with a device over the caller's driver, for example a wrapper that records,
    /// counts or delays the calls of another driver. The instance has streams of its own. Its type
    /// ([`Scoped`]) exists in `body` only, so none of its values leaves `body`.
    ///
    /// The function is safe because [`Driver`](crate::driver::Driver) is an `unsafe` trait: its
    /// implementer has promised the properties that the typed API relies on.
    ///
    /// # Errors
    /// [`OpenError::Driver`] if the driver cannot create a stream.
    ///
    /// ```
    /// use cuda_rt::Device;
    /// use cuda_rt::simulator::{SimConfig, SimDriver};
    ///
    /// let driver = SimDriver::new(SimConfig::new().seed(7));
    /// Device::with_driver(driver.clone(), |gpu| assert!(gpu.is_simulated()))?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn with_driver<R>(
        driver: Arc<dyn DriverWithTools>,
        body: impl for<'id> FnOnce(Device<Scoped<'id>>) -> R,
    ) -> Result<R, OpenError> {
        let core = prepared(driver, "Device::with_driver", Clocks::of_process())?;
        Ok(body(Device::from_core(core)))
    }

    /// Runs `body` with the GPU of this ordinal, as an instance of its own. The instance's type
    /// ([`Scoped`]) exists in `body` only, so none of its values leaves `body`.
    ///
    /// # Errors
    /// [`OpenError::NoGpu`] if no GPU has that ordinal.
    pub fn with_gpu<R>(
        ordinal: usize,
        body: impl for<'id> FnOnce(Device<Scoped<'id>>) -> R,
    ) -> Result<R, OpenError> {
        let driver = cuda(ordinal).map_err(no_gpu)?;
        let core = prepared(driver, "Device::with_gpu", Clocks::of_process())?;
        Ok(body(Device::from_core(core)))
    }

    /// The number of GPUs that the driver shows (`cuDeviceGetCount`). Their ordinals are 0 to the
    /// count less 1. It is 0 on a machine without a driver or a GPU; simulated devices do not
    /// count. `CUDA_VISIBLE_DEVICES` hides GPUs. The call starts the driver (`cuInit`), which may
    /// block for a moment, and opens no device.
    ///
    /// # Errors
    /// [`OpenError::NoGpu`] if there is a driver that cannot be used: too old, or in a bad state.
    ///
    /// ```
    /// use cuda_rt::Device;
    ///
    /// for ordinal in 0..Device::count()? {
    ///     Device::with_gpu(ordinal, |gpu| println!("{}", gpu.properties()))?;
    /// }
    /// # Ok::<(), cuda_rt::OpenError>(())
    /// ```
    pub fn count() -> Result<usize, OpenError> {
        match cuda_count() {
            Ok(count) => Ok(count),
            Err(error) if is_absent(&error) => Ok(0),
            Err(error) => Err(no_gpu(error)),
        }
    }

    /// Runs `body` with each GPU in turn, by ordinal, and returns the results. A machine without
    /// GPUs is no error. To drive several GPUs at once, call [`with_gpu`](Self::with_gpu) from one
    /// thread for each.
    ///
    /// # Errors
    /// [`OpenError::NoGpu`] if a GPU cannot be used; GPUs after it are not tried.
    ///
    /// ```
    /// use cuda_rt::Device;
    ///
    /// let names = Device::for_each_gpu(|gpu| gpu.properties().name.clone())?;
    /// assert_eq!(names.len(), Device::count()?); // both are 0 on a machine without a GPU
    /// # Ok::<(), cuda_rt::OpenError>(())
    /// ```
    pub fn for_each_gpu<R>(
        mut body: impl for<'id> FnMut(Device<Scoped<'id>>) -> R,
    ) -> Result<Vec<R>, OpenError> {
        (0..Self::count()?)
            .map(|ordinal| Self::with_gpu(ordinal, &mut body))
            .collect()
    }
}

/// Whether the error says that there is no GPU, and not that a GPU is broken.
fn is_absent(error: &DriverError) -> bool {
    use cuda_rt_driver::ErrorCode;
    matches!(
        error.code(),
        ErrorCode::NO_DEVICE | ErrorCode::INVALID_DEVICE | ErrorCode::STUB_LIBRARY
    )
}

impl<D> Device<D> {
    pub(crate) fn from_core(core: Arc<DeviceCore>) -> Self {
        Self {
            core,
            tag: PhantomData,
        }
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }

    /// The fixed properties of the device. Calls nothing of the driver.
    pub fn properties(&self) -> &Properties {
        self.core.driver().properties()
    }

    /// Whether this is a simulated device, which computes real bytes in an adversarial order and
    /// models the time.
    pub fn is_simulated(&self) -> bool {
        self.properties().backend == Backend::Simulated
    }

    /// Free and total device memory, in bytes (`cuMemGetInfo`). Does not wait.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.core.driver().memory_info().during("Device::memory_info")
    }

    /// The races that the checker found. It follows every simulated device, and a GPU if
    /// `CUDA_RT_CHECK` is 1. Programs in safe code have no races.
    pub fn races(&self) -> Vec<Race> {
        self.core.tools().races()
    }
}

/// The device `Self` can open the stream `S`, whose device is `D`.
///
/// # Safety
/// Implemented where `Self` is a `Device<D>`.
#[diagnostic::on_unimplemented(
    message = "`{S}` names a stream of the device `{D}`, and this is `{Self}`",
    label = "a stream of another device; a tag without parameters belongs to `Gpu<0>`",
    note = "H36: leave the tag's device open: `gpu.stream::<Tag<_>>()`; in a function for any device `D` it is `Tag<D>`"
)]
pub unsafe trait Opens<S, D>: Sized {}
// SAFETY: `Self` is a `Device<D>`.
unsafe impl<S, D: DeviceTag> Opens<S, D> for Device<D> {}

impl<D: Live> Device<D> {
    /// The stream that `S` names. The first call creates the CUDA stream
    /// (`cuStreamCreateWithPriority`, non-blocking); later calls return the same stream. It is
    /// never the default stream ([H41](crate::hazards#h41)).
    ///
    /// # Two users of one tag
    /// A tag is a CUDA stream, not an instance of the code that uses it. Two engines of one process
    /// that ask for the same tag of one device share one stream: their work is ordered, so nothing
    /// races, but it never overlaps. To keep this from happening in silence:
    ///
    /// - An engine whose number of instances is known only at run time makes a stream for each
    ///   instance: [`create_stream`](Self::create_stream).
    /// - An engine that must be alone on its tag begins with [`claim_stream`](Self::claim_stream).
    ///   The second engine then gets an error that names the tag.
    /// - Two engines of two libraries declare tags of their own with [`streams!`](crate::streams),
    ///   which are never equal, whatever their names.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn stream<S: NamedStream>(&self) -> Result<Stream<S>>
    where
        Self: Opens<S, S::Device>,
    {
        let at = self
            .core()
            .named_stream(TypeId::of::<S::Key>(), S::PRIORITY)
            .during("Device::stream")?;
        let (stream, name) = (at.handle(), S::NAME);
        self.core().tools().hint(Hint::StreamName { stream, name });
        Ok(Stream::from_parts(at, Arc::clone(self.core())))
    }

    /// Like [`stream`](Self::stream), for code that must be alone on its tag: the call fails if the
    /// tag was asked for before. Later calls of `stream` return the same stream, so the rest of
    /// the caller's code needs no handle from here. The tag stays claimed until the device ends,
    /// also if the stream's handles are dropped.
    ///
    /// # Errors
    /// [`Error::StreamInUse`](crate::Error::StreamInUse) if this tag of this device was asked for
    /// before, and [`Error::Driver`](crate::Error::Driver).
    ///
    /// ```
    /// use cuda_rt::{Device, Error};
    /// # use cuda_rt::simulator::SimConfig;
    /// cuda_rt::streams! { pub Compute; }
    ///
    /// # Device::simulated(SimConfig::default(), |gpu| {
    /// let first = gpu.claim_stream::<Compute<_>>()?;
    /// let second = gpu.claim_stream::<Compute<_>>(); // another engine, with the same tag
    /// assert!(matches!(second, Err(Error::StreamInUse { tag: "Compute" })));
    /// # drop(first);
    /// # Ok::<(), Error>(())
    /// # })??;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn claim_stream<S: NamedStream>(&self) -> Result<Stream<S>>
    where
        Self: Opens<S, S::Device>,
    {
        let claimed = self
            .core()
            .new_named_stream(TypeId::of::<S::Key>(), S::PRIORITY)
            .during("Device::claim_stream")?;
        let at = claimed.ok_or(Error::StreamInUse { tag: S::NAME })?;
        let (stream, name) = (at.handle(), S::NAME);
        self.core().tools().hint(Hint::StreamName { stream, name });
        Ok(Stream::from_parts(at, Arc::clone(self.core())))
    }

    /// Blocks the host until all work of this device instance is done: the work that any thread
    /// enqueued on any of its streams before the call, and every free of memory that was dropped
    /// before. It is one `cuStreamSynchronize` for each stream: streams of tags, of
    /// [pools](crate::StreamPool), [of run time](crate::AnyStream), and the stream that frees
    /// memory.
    ///
    /// `cuCtxSynchronize` waits for more: for work of other libraries, and of other instances of
    /// the same GPU. It fails while another thread captures, and this call does not.
    ///
    /// After the call no type has changed: a buffer still belongs to its stream, and a handoff must
    /// still be [synchronised](crate::Handoff::synchronize), which then returns at once. Streams
    /// that other code made and that were adopted are not waited for; neither are the handoffs of
    /// other devices.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver), also if earlier work failed. A failed wait is not a
    /// finished wait, and streams after it were not waited for.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; pub Upload; }
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    /// let counts = compute.alloc_zeroed::<u32>(1024)?;
    /// let sums = upload.alloc_zeroed::<u32>(1024)?;
    /// gpu.synchronize()?;
    /// assert!(compute.is_done()? && upload.is_done()?);
    /// # drop((counts, sums));
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn synchronize(&self) -> Result<()> {
        self.core.synchronize().during("Device::synchronize")
    }

    /// `len` zeroed elements of pinned host memory from the device's pool; no GPU work. Blocks only
    /// if the pool has no block of that size whose last use is over: it then maps new memory
    /// (`cuMemHostRegister`).
    ///
    /// The pool maps its pages itself, for two promises: they stay mapped under a `&mut [T]` as
    /// long as the buffer lives, and a child of `fork` does not get them. So they are not
    /// write-combined, because only `cuMemHostAlloc` maps such pages. Data that the CPU writes once
    /// and never reads have [`write_combined`](Self::write_combined).
    ///
    /// # Errors
    /// [`Error::Pinned`](crate::Error::Pinned), and [`Error::Driver`](crate::Error::Driver) if
    /// memory cannot be page-locked.
    #[track_caller]
    pub fn pinned<T: Element>(&self, len: usize) -> Result<PinnedBuffer<T, Idle<D>>> {
        PinnedBuffer::zeroed(self.core(), len, "Device::pinned")
    }

    /// Like [`pinned`](Self::pinned), with a copy of `source`.
    ///
    /// # Errors
    /// As [`pinned`](Self::pinned).
    #[track_caller]
    pub fn pinned_from<T: Element>(&self, source: &[T]) -> Result<PinnedBuffer<T, Idle<D>>> {
        PinnedBuffer::uninit(self.core(), source.len(), "Device::pinned_from")?.init_from_slice(source)
    }

    /// Like [`pinned`](Self::pinned), but the memory is not zeroed, and the type does not allow
    /// reads of its elements ([H39](crate::hazards#h39)). These calls write it, and make it
    /// readable:
    ///
    /// | data | call |
    /// |---|---|
    /// | a slice | [`init_from_slice`](PinnedBuffer::init_from_slice) |
    /// | a closure, an iterator | [`init_with`](PinnedBuffer::init_with) |
    /// | a file, a socket | [`init_from_reader`](PinnedBuffer::init_from_reader) |
    /// | device memory | [`Stream::init_host_from`] |
    ///
    /// # Errors
    /// As [`pinned`](Self::pinned).
    ///
    /// ```
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let squares = gpu.pinned_uninit::<u32>(4)?.init_with(|at| (at * at) as u32);
    /// assert_eq!(*squares, [0, 1, 4, 9]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn pinned_uninit<T: Element>(&self, len: usize) -> Result<PinnedBuffer<MaybeUninit<T>, Idle<D>>> {
        PinnedBuffer::uninit(self.core(), len, "Device::pinned_uninit")
    }
}

impl<S: StreamTag> Stream<S> {
    /// The device of this stream.
    pub fn device(&self) -> Device<S::Device> {
        Device::from_core(Arc::clone(self.core()))
    }
}

impl<T, D: Live> PinnedBuffer<T, Idle<D>> {
    /// Moves idle memory to another device. Pinned memory is page-locked for every GPU of the
    /// process, and bound to no device.
    ///
    /// # Errors
    /// [`Refused`] holds the buffer.
    ///
    /// - [`PinnedError::OtherBackend`] between a GPU and a simulated device. A machine without a
    ///   GPU cannot cause this error.
    /// - [`PinnedError::OtherProcess`] in a child of `fork`, for memory of its parent.
    pub fn for_device<E: Live>(
        self,
        device: &Device<E>,
    ) -> std::result::Result<PinnedBuffer<T, Idle<E>>, Refused<Self>> {
        if self.core().driver().properties().backend != device.properties().backend {
            return Err(Refused {
                error: PinnedError::OtherBackend.into(),
                value: self,
            });
        }
        // The pool of the child's device would hand the block out, which a child cannot use.
        if self.core().pinned().is_of_parent() {
            return Err(Refused {
                error: PinnedError::OtherProcess.into(),
                value: self,
            });
        }
        // SAFETY: `E` is the tag of `device`, whose backend was just compared.
        Ok(unsafe { self.with_core(device.core()) })
    }
}
