//! Memory of this crate, given to other libraries: [`Stream::to_dlpack`],
//! [`PinnedBuffer::into_dlpack`], and [`DlpackExport`], which owns an exported tensor until it is
//! taken.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use super::abi::{DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLTensor, VERSION};
use super::import::{HOST, device_of};
use super::received::elements;
use super::shared::Memory;
use super::{DlpackElement, dtype_of};
use crate::error::{DlpackError, During, Error, Refused, Result};
use crate::memory::{Bundle, DeviceBuffer, PinnedBuffer, ToHost};
use crate::order::fence::Fence;
use crate::order::handoff::Handoff;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::stream::Stream;
use crate::tag::{Idle, Live, StreamTag};
use cuda_rt_driver::{CallSite, RawStream};

/// A tensor for another library, which nobody has taken yet.
///
/// [`into_raw`](Self::into_raw) gives it to a consumer. Dropping it instead frees the memory behind
/// the work of this crate.
#[must_use = "dropping it frees the memory; `into_raw` gives it to a consumer"]
pub struct DlpackExport<R: Bundle>(Lent<R>);

/// The memory of an exported tensor.
struct Lent<R: Bundle> {
    /// The memory, behind the work of this crate, and behind the uses of earlier consumers.
    memory: Arc<Memory<R>>,
    /// The stream of the consumer's uses; `None` if they are over when it calls the deleter.
    consumer: Option<StreamRef>,
    /// The uses for which the consumer waits: the number that [`Memory::uses`] returned.
    waited_for: u64,
    numbers: Numbers,
}

/// The fields of a tensor, without pointers.
#[derive(Clone)]
pub(super) struct Numbers {
    pub(super) address: usize,
    pub(super) device: DLDevice,
    pub(super) dtype: DLDataType,
    /// The extents, and behind them the strides.
    shape: Vec<i64>,
}

impl Numbers {
    /// The numbers of `len` elements at `address`.
    pub(super) fn of<T: DlpackElement>(
        device: DLDevice,
        address: usize,
        len: usize,
        shape: &[usize],
    ) -> Result<Self, DlpackError> {
        let elements = elements(shape);
        let wrong = DlpackError::Shape { elements, len };
        let uncounted = DlpackError::Shape { elements: None, len };
        let extents = shape.iter().map(|extent| i64::try_from(*extent));
        let mut numbers: Vec<i64> = extents.collect::<Result<_, _>>().map_err(|_| uncounted)?;
        if elements != Some(len) || i32::try_from(numbers.len()).is_err() {
            return Err(wrong);
        }
        let mut strides = vec![1; numbers.len()];
        for dimension in (1..strides.len()).rev() {
            // Without elements the strides do not count, and the product may be too large.
            strides[dimension - 1] = numbers[dimension].max(1).saturating_mul(strides[dimension]);
        }
        numbers.append(&mut strides);
        Ok(Self {
            address: if len == 0 { 0 } else { address },
            device,
            dtype: dtype_of::<T>(),
            shape: numbers,
        })
    }

    /// The extents, in elements.
    pub(super) fn shape(&self) -> &[i64] {
        &self.shape[..self.shape.len() / 2]
    }

    /// The tensor. Its pointers are valid as long as `self`.
    fn tensor(&mut self) -> DLTensor {
        let ndim = self.shape.len() / 2;
        let shape = self.shape.as_mut_ptr();
        DLTensor {
            data: ptr::with_exposed_provenance_mut(self.address),
            device: self.device,
            ndim: ndim as i32,
            dtype: self.dtype,
            shape,
            strides: shape.wrapping_add(ndim),
            byte_offset: 0,
        }
    }
}

impl<R: Bundle> fmt::Debug for DlpackExport<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = &self.0.numbers;
        write!(f, "DlpackExport({}, {:?})", numbers.dtype, numbers.shape())
    }
}

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// Gives a buffer to another library as a tensor of this shape, in row-major order. Makes
    /// `consumer` wait, on the GPU, for the present work of this stream (`cuEventRecord`,
    /// `cuStreamWaitEvent`). The host does not wait.
    ///
    /// `consumer` is the stream that the consumer named ([`consumer_stream`]). When the consumer
    /// calls the deleter, an event is recorded there, and the memory is freed behind it. The
    /// deleter never blocks, runs on any thread, in any context, and also after the last handle of
    /// the device is gone. If the event cannot be recorded, the memory is leaked.
    ///
    /// A tensor that was imported is given on by `to_dlpack(tensor.elements, &tensor.shape, ..)`.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01)–[H03](crate::hazards#h03): the consumer's work begins behind the
    /// work of this stream, and no call of this crate names the memory any more.
    /// [H21](crate::hazards#h21), under the promises below.
    ///
    /// # Safety
    /// 1. `consumer` is a stream of this device's primary context, or its legacy default stream,
    ///    and is not being captured, neither now nor while the deleter runs. The consumer does not
    ///    call the deleter inside a host function of a stream (`cuLaunchHostFunc`), where CUDA
    ///    forbids the deleter's calls. The stream is not destroyed until the deleter has returned,
    ///    or the export was dropped.
    /// 2. When the consumer calls the deleter, its uses of the memory are over, or ordered before
    ///    the present end of `consumer`. Counterexample: a consumer that calls the deleter first,
    ///    and launches its kernel then (reported of one library: NVIDIA/cutile-python#88).
    ///
    /// # Errors
    /// [`Refused`] with the buffer, which this stream still owns: [`Error::Dlpack`] if the shape
    /// has another number of elements, and [`Error::Driver`] if the wait cannot be enqueued.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; pub Theirs; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let (compute, theirs) = (gpu.stream::<Compute>()?, gpu.stream::<Theirs>()?);
    /// let image = compute.init_filled(compute.alloc_uninit::<f32>(6)?, 1.5)?;
    /// let consumer = theirs.raw(); // a stream of another library
    /// // SAFETY: the stream lives on, and all uses of the consumer are in its order.
    /// let export = unsafe { compute.to_dlpack(image, &[2, 3], consumer) }?;
    /// let managed = export.into_raw();
    /// // The consumer, behind the work of `compute`:
    /// // SAFETY: the tensor was given away, and its producer was told the stream `theirs`.
    /// let tensor = unsafe { theirs.from_dlpack::<f32>(managed) }?;
    /// assert_eq!(theirs.copy_to_vec(&tensor.elements)?, [1.5; 6]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    ///
    /// [`consumer_stream`]: super::consumer_stream
    pub unsafe fn to_dlpack<T: DlpackElement>(
        &self,
        buffer: DeviceBuffer<T, S>,
        shape: &[usize],
        consumer: RawStream,
    ) -> Result<DlpackExport<DeviceBuffer<T, Idle<S::Device>>>, Refused<DeviceBuffer<T, S>>> {
        const CALL: &str = "Stream::to_dlpack";
        let core = self.core();
        let address = buffer.address().0 as usize;
        let numbers = Numbers::of::<T>(device_of(core), address, buffer.len(), shape);
        let consumer = StreamRef::adopted(consumer);
        let ordered = || {
            let numbers = numbers.map_err(|why| Error::Dlpack { during: CALL, why })?;
            let lease = self.record(CALL)?;
            // After an error the consumer may wait all the same, which only delays it.
            lease.wait_on(consumer).during(CALL)?;
            Ok((numbers, lease))
        };
        let (numbers, lease) = match ordered() {
            Ok(ordered) => ordered,
            Err(error) => {
                let value = buffer;
                return Err(Refused { error, value });
            }
        };
        // SAFETY: the event was recorded just now, on this stream, which owned the buffer.
        let handoff = unsafe { Handoff::behind(buffer, lease) };
        let memory = Memory::new(handoff, Arc::clone(core));
        Ok(DlpackExport::new(memory, Some(consumer), 1, numbers))
    }
}

impl<T: DlpackElement, D: Live> PinnedBuffer<T, Idle<D>> {
    /// Gives page-locked memory to another library as a tensor of this shape (`kDLCUDAHost`). Calls
    /// nothing of the driver: no work that uses an idle buffer is pending, so a consumer on the CPU
    /// may read it at once.
    ///
    /// With a `consumer` the deleter records an event on that stream, and the memory goes back to
    /// its pool behind it. Without one the memory goes back at once. The deleter never blocks, and
    /// runs on any thread.
    ///
    /// # Safety
    /// 1. As for [`Stream::to_dlpack`], if there is a `consumer`. If there is none, the consumer's
    ///    uses are over when it calls the deleter, also its copies to a GPU.
    /// 2. The memory is not used in a child of `fork`.
    ///
    /// # Errors
    /// [`Refused`] with the buffer: [`Error::Dlpack`] if the shape has another number of elements.
    ///
    /// ```
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let host = gpu.pinned_from(&[1_u8, 2, 3, 4])?;
    /// // SAFETY: the consumer below uses the memory on the CPU only.
    /// let managed = unsafe { host.into_dlpack(&[2, 2], None) }?.into_raw();
    /// // SAFETY: the tensor was given away, as page-locked memory of this crate.
    /// let (host, shape) = unsafe { cuda_rt::PinnedBuffer::<u8>::from_dlpack(&gpu, managed) }?;
    /// assert_eq!((&host[..], shape), (&[1, 2, 3, 4][..], vec![2, 2]));
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub unsafe fn into_dlpack(
        mut self,
        shape: &[usize],
        consumer: Option<RawStream>,
    ) -> Result<DlpackExport<Self>, Refused<Self>> {
        let passed = CallSite::here("PinnedBuffer::into_dlpack");
        let address = self.as_mut_ptr().expose_provenance();
        let numbers = match Numbers::of::<T>(HOST, address, self.len(), shape) {
            Ok(numbers) => numbers,
            Err(why) => {
                let (during, value) = (passed.during, self);
                let error = Error::Dlpack { during, why };
                return Err(Refused { error, value });
            }
        };
        self.note_host_access(ToHost::writes(passed));
        let core = Arc::clone(self.core());
        // SAFETY: HANDOFF-1: the buffer is idle, so every use is over.
        let handoff = unsafe { Handoff::pending(self, Fence::DONE) };
        let memory = Memory::new(handoff, core);
        Ok(DlpackExport::new(
            memory,
            consumer.map(StreamRef::adopted),
            1,
            numbers,
        ))
    }
}

/// An exported tensor in the hands of its consumer.
///
/// # Invariants
/// LENT-1. `into_raw` and its like put it into a box, and give the box away by the address of
/// `managed`, its first field. The deleter alone takes the box back, once.
#[repr(C)]
struct Taken<M, R: Bundle> {
    managed: M,
    lent: Lent<R>,
}

impl<R: Bundle> DlpackExport<R> {
    /// A tensor in `memory`. Its consumer waits for the first `waited_for` uses of the memory, and
    /// ends its own on the stream `consumer`.
    pub(super) fn new(
        memory: Arc<Memory<R>>,
        consumer: Option<StreamRef>,
        waited_for: u64,
        numbers: Numbers,
    ) -> Self {
        Self(Lent {
            memory,
            consumer,
            waited_for,
            numbers,
        })
    }
}

impl<R: Bundle + Send> DlpackExport<R> {
    /// Gives the tensor to a consumer, which ends it by its deleter. If the consumer never calls
    /// the deleter, the memory is leaked. Calls nothing of the driver.
    ///
    /// It is for the capsule `"dltensor_versioned"` of Python.
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        let mut lent = self.0;
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete::<DLManagedTensorVersioned, R>),
            flags: 0,
            dl_tensor: lent.numbers.tensor(),
        };
        Box::into_raw(Box::new(Taken { managed, lent })).cast()
    }

    /// As [`into_raw`](Self::into_raw), for a consumer that is older than DLPack 1.0. It is for the
    /// capsule `"dltensor"` of Python.
    pub fn into_raw_unversioned(self) -> *mut DLManagedTensor {
        let mut lent = self.0;
        let managed = DLManagedTensor {
            dl_tensor: lent.numbers.tensor(),
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete::<DLManagedTensor, R>),
        };
        Box::into_raw(Box::new(Taken { managed, lent })).cast()
    }
}

/// Ends an exported tensor. Never unwinds, and never blocks.
///
/// # Safety
/// `managed` is null, or from [`DlpackExport::into_raw`] or its like for these types, and this is
/// the only call with it. The consumer keeps the promises of [`Stream::to_dlpack`].
unsafe extern "C" fn delete<M, R: Bundle + Send>(managed: *mut M) {
    if managed.is_null() {
        return;
    }
    // SAFETY: LENT-1: the box was given away by this address, and this is the only call with it.
    let taken = unsafe { Box::from_raw(managed.cast::<Taken<M, R>>()) };
    let ended = catch_unwind(AssertUnwindSafe(|| taken.lent.end()));
    if let Err(payload) = ended {
        // The drop of a payload may panic.
        mem::forget(payload);
    }
}

impl<R: Bundle> Lent<R> {
    /// Ends the consumer's uses. The last holder of the memory frees it behind the uses of all.
    fn end(self) {
        // If the record unwinds, the memory is leaked. A child of `fork` leaks what is its
        // parent's.
        let memory = Leaked::new(self.memory);
        if !memory.process().is_current() {
            return;
        }
        if let Some(consumer) = self.consumer {
            let ended = memory.core().events().record(consumer, false);
            let fence = ended.map_or_else(Fence::lost, Fence::from);
            // The consumer's stream waits for the uses before its own, or there were none. The
            // consumer's uses are ordered before the present end of its stream. So all of them
            // come before this event.
            memory.note_use(fence, self.waited_for);
        }
        drop(memory.take_back());
    }
}
