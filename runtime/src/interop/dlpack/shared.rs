//! [`DlpackShared`]: memory that is lent to several consumers, one after another or at a time, as
//! an object of Python is. [`Memory`]: the uses of lent memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::DlpackElement;
use super::abi::{DLDataType, DLDevice};
use super::export::{DlpackExport, Numbers};
use super::import::{HOST, device_of};
use crate::device::Device;
use crate::device::core::DeviceCore;
use crate::error::{During, Error, Refused, Result};
use crate::memory::{Bundle, DeviceBuffer, PinnedBuffer, ToHost};
use crate::order::fence::Fence;
use crate::order::handoff::Handoff;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::{Idle, Live};
use cuda_rt_driver::process::Process;
use cuda_rt_driver::{CallSite, DeviceAddress, RawStream};

/// Memory of a buffer that several consumers may use. It is what an object of Python owns whose
/// `__dlpack__` may be called more than once.
///
/// [`lend`](Self::lend) makes a consumer wait for the work of this crate, and for the consumers
/// that have ended. It does not order consumers that use the memory at one time: libraries share
/// tensors in this way, and their users order them. Once this value and all lent tensors have
/// ended, the memory is freed behind the work of all.
///
/// ```
/// # cuda_rt::streams! { pub Compute; pub Theirs; }
/// use cuda_rt::interop::dlpack::{DL_CUDA, DLDevice, DlpackShared};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let (compute, theirs) = (gpu.stream::<Compute>()?, gpu.stream::<Theirs>()?);
/// let image = compute.release(compute.alloc_zeroed::<f32>(6)?)?;
/// let shared = DlpackShared::new(&gpu, image, &[2, 3])?;
/// assert_eq!((shared.shape(), shared.dtype().to_string()), (&[2, 3][..], "float32".to_owned()));
/// assert_eq!(shared.device(), DLDevice { device_type: DL_CUDA, device_id: 0 });
/// for value in [0.0, 1.0] {
///     // SAFETY: the stream lives on, and all uses of the consumer are in its order.
///     let managed = unsafe { shared.lend(Some(theirs.raw())) }?.into_raw();
///     // The consumer. The next consumer waits for it:
///     // SAFETY: the tensor was given away, and its producer was told the stream `theirs`.
///     let mut tensor = unsafe { theirs.from_dlpack::<f32>(managed) }?;
///     assert_eq!(tensor.elements.address(), shared.address());
///     assert_eq!(theirs.copy_to_vec(&tensor.elements)?, [value; 6]);
///     theirs.fill(&mut tensor.elements, value + 1.0)?;
/// }
///
/// let host = gpu.pinned_from(&[1_u8, 2])?;
/// let host = DlpackShared::of_pinned(host, &[2])?;
/// // SAFETY: the export is dropped, and used by nobody.
/// drop(unsafe { host.lend(None) }?);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[must_use = "dropping it frees the memory; `lend` gives it to a consumer"]
pub struct DlpackShared<R: Bundle> {
    memory: Arc<Memory<R>>,
    numbers: Numbers,
}

/// The memory of exported tensors, and its uses.
///
/// # Invariants
/// MEMORY-1. Each use of the memory is over, or ordered before one of `fences`, or belongs to a
/// consumer that has not ended: it holds this value then.
pub(super) struct Memory<R: Bundle> {
    state: Mutex<State<R>>,
    core: Arc<DeviceCore>,
    process: Process,
}

struct State<R: Bundle> {
    /// `None` once the memory is freed.
    handoff: Option<Handoff<R>>,
    /// The ends of uses, each with its number. The work of this crate has number 0.
    fences: Vec<(u64, Fence)>,
    /// The number of the next use.
    next: u64,
}

impl<R: Bundle> Memory<R> {
    pub(super) fn new(mut handoff: Handoff<R>, core: Arc<DeviceCore>) -> Arc<Self> {
        let fences = vec![(0, handoff.share_fence())];
        let state = State {
            handoff: Some(handoff),
            fences,
            next: 1,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            core,
            process: Process::current(),
        })
    }

    pub(super) fn core(&self) -> &DeviceCore {
        &self.core
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// No code that may unwind runs under the lock in the middle of a change.
    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The uses that have ended so far: their fence, and how many they are.
    fn uses(&self) -> (Fence, u64) {
        let mut state = self.state();
        let shared: Vec<Fence> = state.fences.iter_mut().map(|(_, fence)| fence.share()).collect();
        (Fence::all(shared), state.next)
    }

    /// Notes a use that ends at `fence`, and is ordered behind the first `waited_for` uses. So the
    /// list stays short.
    pub(super) fn note_use(&self, fence: Fence, waited_for: u64) {
        let mut state = self.state();
        state.fences.retain(|(number, _)| *number >= waited_for);
        let number = state.next;
        state.fences.push((number, fence));
        state.next += 1;
    }
}

impl<R: Bundle> Drop for Memory<R> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(handoff) = state.handoff.take() {
            let fences = state.fences.drain(..).map(|(_, fence)| fence);
            // If a call of the driver unwinds, the memory is leaked.
            let mut handoff = Leaked::new(handoff);
            // SAFETY: HANDOFF-1: by MEMORY-1 each use is over, or before one of the fences: nobody
            // else holds the memory.
            unsafe { handoff.set_fence(Fence::all(fences)) };
            drop(handoff.take_back());
        }
    }
}

impl<R: Bundle> fmt::Debug for DlpackShared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DlpackShared({}, {:?})", self.dtype(), self.shape())
    }
}

impl<T: DlpackElement, D: Live> DlpackShared<DeviceBuffer<T, Idle<D>>> {
    /// Memory of `gpu` as a tensor of this shape, in row-major order. Calls nothing of the driver.
    ///
    /// # Errors
    /// [`Refused`] with the handoff: [`Error::Dlpack`] if the shape has another number of elements.
    pub fn new(
        gpu: &Device<D>,
        handoff: Handoff<DeviceBuffer<T, Idle<D>>>,
        shape: &[usize],
    ) -> Result<Self, Refused<Handoff<DeviceBuffer<T, Idle<D>>>>> {
        let during = "DlpackShared::new";
        let buffer = handoff.pending_ref();
        let (address, len) = (buffer.address().0 as usize, buffer.len());
        match Numbers::of::<T>(device_of(gpu.core()), address, len, shape) {
            Ok(numbers) => Ok(Self {
                memory: Memory::new(handoff, Arc::clone(gpu.core())),
                numbers,
            }),
            Err(why) => {
                let (error, value) = (Error::Dlpack { during, why }, handoff);
                Err(Refused { error, value })
            }
        }
    }
}

impl<T: DlpackElement, D: Live> DlpackShared<PinnedBuffer<T, Idle<D>>> {
    /// Page-locked memory as a tensor of this shape, in row-major order (`kDLCUDAHost`). Calls
    /// nothing of the driver.
    ///
    /// # Errors
    /// [`Refused`] with the buffer: [`Error::Dlpack`] if the shape has another number of elements.
    #[track_caller]
    pub fn of_pinned(
        mut buffer: PinnedBuffer<T, Idle<D>>,
        shape: &[usize],
    ) -> Result<Self, Refused<PinnedBuffer<T, Idle<D>>>> {
        let passed = CallSite::here("DlpackShared::of_pinned");
        let address = buffer.as_mut_ptr().expose_provenance();
        match Numbers::of::<T>(HOST, address, buffer.len(), shape) {
            Ok(numbers) => {
                buffer.note_host_access(ToHost::writes(passed));
                let core = Arc::clone(buffer.core());
                // SAFETY: HANDOFF-1: the buffer is idle, so every use is over.
                let handoff = unsafe { Handoff::pending(buffer, Fence::DONE) };
                let memory = Memory::new(handoff, core);
                Ok(Self { memory, numbers })
            }
            Err(why) => {
                let during = passed.during;
                let (error, value) = (Error::Dlpack { during, why }, buffer);
                Err(Refused { error, value })
            }
        }
    }
}

impl<R: Bundle> DlpackShared<R> {
    /// Lends the memory to a consumer.
    ///
    /// With a `consumer`, makes that stream wait, on the GPU, for the work of this crate and for
    /// all consumers that have ended (`cuStreamWaitEvent`). The host does not wait. When the
    /// consumer calls the deleter, an event is recorded on its stream. For `CU_STREAM_PER_THREAD`,
    /// the number 2, the calling thread's stream waits, and the event is recorded on the legacy
    /// default stream, which waits for the default streams of all threads.
    ///
    /// Without a consumer the host waits for all this work (**blocks**, `cuEventSynchronize`), and
    /// the consumer may use the memory at once, on any stream and on the host.
    ///
    /// # Safety
    /// 1. `consumer` is a stream of this device's primary context, or one of its default streams,
    ///    and is not being captured. It is not destroyed until the deleter has returned, or the
    ///    export was dropped.
    /// 2. When the consumer calls the deleter, its uses of the memory are over, or ordered before
    ///    the present end of `consumer`. Without a `consumer` they are over.
    /// 3. The uses of consumers that have not ended at the same time are ordered by whoever brings
    ///    them together, and no consumer writes what another uses.
    /// 4. Page-locked memory is not used in a child of `fork`.
    ///
    /// # Errors
    /// [`Error::Driver`] if the wait cannot be enqueued, or fails.
    pub unsafe fn lend(&self, consumer: Option<RawStream>) -> Result<DlpackExport<R>> {
        const CALL: &str = "DlpackShared::lend";
        let (fence, waited_for) = self.memory.uses();
        // After an error the consumer may wait all the same, which only delays it.
        match consumer {
            Some(consumer) => fence.wait_on(StreamRef::adopted(consumer)),
            None => fence.synchronize(),
        }
        .during(CALL)?;
        let end = consumer.map(|consumer| StreamRef::adopted(end_of(consumer)));
        let memory = Arc::clone(&self.memory);
        Ok(DlpackExport::new(memory, end, waited_for, self.numbers.clone()))
    }

    /// The device, as DLPack names it.
    pub fn device(&self) -> DLDevice {
        self.numbers.device
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DLDataType {
        self.numbers.dtype
    }

    /// The extents, in elements.
    pub fn shape(&self) -> &[i64] {
        self.numbers.shape()
    }

    /// The address of the first element; 0 if there are no elements. It may be used only as
    /// consumers may use the memory.
    pub fn address(&self) -> DeviceAddress {
        DeviceAddress(self.numbers.address as u64)
    }
}

/// The stream on which a use that is enqueued on `consumer` ends. The deleter may run on another
/// thread than the consumer, where `CU_STREAM_PER_THREAD` is another stream. The legacy default
/// stream waits for the default streams of all threads, because these are blocking streams.
fn end_of(consumer: RawStream) -> RawStream {
    const LEGACY: RawStream = RawStream(1);
    const PER_THREAD: RawStream = RawStream(2);
    if consumer == PER_THREAD { LEGACY } else { consumer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_threads_default_stream_is_recorded_where_every_thread_can() {
        assert_eq!(end_of(RawStream(2)), RawStream(1));
        assert_eq!(end_of(RawStream(1)), RawStream(1));
        assert_eq!(end_of(RawStream(0x7f00)), RawStream(0x7f00));
    }
}
