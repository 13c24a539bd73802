//! Tensors of other libraries, taken over: [`Stream::from_dlpack`], [`PinnedBuffer::from_dlpack`].

use std::ptr::NonNull;

use super::abi::{DL_CPU, DL_CUDA, DL_CUDA_HOST, DLDevice, DLManagedTensor, DLManagedTensorVersioned};
use super::received::Received;
use super::{DlpackElement, DlpackTensor};
use crate::device::Device;
use crate::device::core::DeviceCore;
use crate::error::{DlpackError, Error, Result};
use crate::memory::{DeviceBuffer, Foreign, Metadata, PinnedBuffer};
use crate::stream::Stream;
use crate::tag::{Idle, Live, StreamTag};
use cuda_rt_driver::{CallSite, DeviceAddress};

/// The memory of a device, as DLPack names it.
pub(super) fn device_of(core: &DeviceCore) -> DLDevice {
    DLDevice {
        device_type: DL_CUDA,
        device_id: core.driver().properties().ordinal as i32,
    }
}

/// Page-locked memory, as DLPack names it.
pub(super) const HOST: DLDevice = DLDevice {
    device_type: DL_CUDA_HOST,
    device_id: 0,
};

/// Ordinary memory of the host, as DLPack names it.
const ORDINARY: DLDevice = DLDevice {
    device_type: DL_CPU,
    device_id: 0,
};

fn refused(during: &'static str) -> impl Fn(DlpackError) -> Error {
    move |why| Error::Dlpack { during, why }
}

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// Takes a tensor of another library over, with its shape. Calls nothing of the driver; the
    /// host does not wait.
    ///
    /// The tensor belongs to this stream, because the producer was told its
    /// [number](Self::dlpack_stream), and made it wait for the work that writes the memory. Another
    /// stream gets the tensor by a handoff. After the last use on the GPU the producer's deleter
    /// runs once, on the device's thread for closures, as the release of
    /// [`DeviceBuffer::from_foreign`](crate::DeviceBuffer::from_foreign) does.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01)–[H03](crate::hazards#h03), [H13](crate::hazards#h13): the memory
    /// moves through handoffs only. [H21](crate::hazards#h21): the producer gets it back after its
    /// last use.
    ///
    /// # Safety
    /// 1. `managed` is null, or a tensor that its producer gives away: well-formed, and ended by
    ///    nobody else. Any thread may call its deleter, also while the process runs its exit
    ///    handlers.
    /// 2. The memory is readable and writable for the device until the deleter is called, and
    ///    initialised: after the earlier work it holds values of `T`. All
    ///    earlier work on it is ordered before the present end of this stream: its producer was
    ///    told this stream, or the work is over.
    /// 3. Until the deleter is called, nothing else uses the memory. A tensor of Python shares its
    ///    memory with the object that it was made of: the program leaves that object alone
    ///    meanwhile.
    ///
    /// # Errors
    /// [`Error::Dlpack`] if the tensor is of another device, has another element type, is not
    /// compact in row-major order, is read-only or misaligned, or is of another major version. The
    /// deleter has then run, on this thread.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Theirs; pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let (theirs, compute) = (gpu.stream::<Theirs>()?, gpu.stream::<Compute>()?);
    /// # let memory = theirs.alloc_from_slice(&[1_i32, 2, 3, 4, 5, 6])?;
    /// # let producer = |stream: i64| {
    /// #     let consumer = cuda_rt::driver::RawStream(stream as _);
    /// #     // SAFETY: both streams live until the end of the process.
    /// #     let export = unsafe { theirs.to_dlpack(memory, &[2, 3], consumer) };
    /// #     Ok::<_, cuda_rt::Error>(export?.into_raw())
    /// # };
    /// // `producer` is the `__dlpack__` of another library.
    /// let managed = producer(compute.dlpack_stream())?;
    /// // SAFETY: the producer gave the tensor away, and was told the number of this stream.
    /// let mut tensor = unsafe { compute.from_dlpack::<i32>(managed) }?;
    /// assert_eq!(*tensor.shape, [2, 3]);
    /// compute.fill(&mut tensor.elements[..3], 0)?; // the first row
    /// assert_eq!(compute.copy_to_vec(&tensor.elements)?, [0, 0, 0, 4, 5, 6]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub unsafe fn from_dlpack<T: DlpackElement>(
        &self,
        managed: *mut DLManagedTensorVersioned,
    ) -> Result<DlpackTensor<T, S>> {
        // SAFETY: this function's contract is RECEIVED-1.
        let received = unsafe { Received::versioned(managed) };
        let passed = CallSite::here("Stream::from_dlpack");
        // SAFETY: this function's contract.
        unsafe { self.take_over(received, passed) }
    }

    /// As [`from_dlpack`](Self::from_dlpack), for the struct without a version, which Python's
    /// capsule `"dltensor"` holds. It has no flags, so a tensor may be read-only without saying so.
    ///
    /// # Safety
    /// As for [`from_dlpack`](Self::from_dlpack).
    ///
    /// # Errors
    /// As [`from_dlpack`](Self::from_dlpack).
    #[track_caller]
    pub unsafe fn from_dlpack_unversioned<T: DlpackElement>(
        &self,
        managed: *mut DLManagedTensor,
    ) -> Result<DlpackTensor<T, S>> {
        // SAFETY: this function's contract is RECEIVED-1.
        let received = unsafe { Received::unversioned(managed) };
        let passed = CallSite::here("Stream::from_dlpack_unversioned");
        // SAFETY: this function's contract.
        unsafe { self.take_over(received, passed) }
    }

    /// # Safety
    /// As for [`from_dlpack`](Self::from_dlpack).
    unsafe fn take_over<T: DlpackElement>(
        &self,
        received: Option<Received>,
        passed: CallSite,
    ) -> Result<DlpackTensor<T, S>> {
        let refused = refused(passed.during);
        let received = received.ok_or_else(|| refused(DlpackError::Null))?;
        let core = self.core();
        // An early return drops what was received, and so ends it.
        let checked = received.check::<T>(device_of(core)).map_err(refused)?;
        let address = DeviceAddress(checked.start.addr() as u64);
        let foreign = Foreign::new(core, address, checked.bytes, passed, move || drop(received));
        // SAFETY: BUFFER-1: by this function's contract nothing else uses the memory until the
        // deleter runs; `check` compared its device, its type, its length and its alignment.
        // BUFFER-2: by the contract all earlier work is ordered before the present end of this
        // stream. BUFFER-3: the stream is `S`.
        let elements =
            unsafe { DeviceBuffer::from_foreign_at(core, self.at(), address, checked.len, foreign) };
        let shape = Metadata::new(checked.shape);
        Ok(DlpackTensor { elements, shape })
    }
}

impl<T: DlpackElement, D: Live> PinnedBuffer<T, Idle<D>> {
    /// Takes a page-locked tensor of another library over (`kDLCUDAHost`), with its shape. The CPU
    /// reaches the memory at once. Calls nothing of the driver.
    ///
    /// The deleter runs as the release of [`from_foreign`](Self::from_foreign) does.
    ///
    /// # Safety
    /// 1. As for [`Stream::from_dlpack`].
    /// 2. Until the deleter is called, the contract of [`from_foreign`](Self::from_foreign) holds
    ///    for the memory: it is page-locked for every GPU of the process, initialised, and used by
    ///    nothing else. No work that uses it is pending at the call.
    ///
    /// # Errors
    /// As [`Stream::from_dlpack`].
    #[track_caller]
    pub unsafe fn from_dlpack(
        gpu: &Device<D>,
        managed: *mut DLManagedTensorVersioned,
    ) -> Result<(Self, Vec<usize>)> {
        let passed = CallSite::here("PinnedBuffer::from_dlpack");
        let refused = refused(passed.during);
        // SAFETY: this function's contract is RECEIVED-1.
        let received = unsafe { Received::versioned(managed) };
        let received = received.ok_or_else(|| refused(DlpackError::Null))?;
        // An early return drops what was received, and so ends it.
        let checked = received.check::<T>(HOST).map_err(refused)?;
        let start = NonNull::new(checked.start.cast::<T>()).unwrap_or(NonNull::dangling());
        let address = DeviceAddress(start.as_ptr().expose_provenance() as u64);
        let core = gpu.core();
        let foreign = Foreign::new(core, address, checked.bytes, passed, move || drop(received));
        // SAFETY: this function's contract is PINNED-1 to PINNED-3; `check` compared the type, the
        // length and the alignment.
        let buffer = unsafe { Self::from_foreign_at(core, start, checked.len, passed, foreign) };
        Ok((buffer, checked.shape))
    }

    /// Copies a tensor of another library from ordinary memory of the host (`kDLCPU`) to
    /// page-locked memory of the device's pool, and returns its shape too. The tensor may be
    /// read-only, and misaligned. It is only read, and goes back before the call returns.
    ///
    /// The host makes the copy (**blocks**). Page-locked tensors are taken over without a copy, by
    /// [`from_dlpack`](Self::from_dlpack).
    ///
    /// # Safety
    /// 1. As for [`Stream::from_dlpack`].
    /// 2. The memory is readable for the host, and holds values of `T`. Nothing writes it during
    ///    the call, also no work that is pending.
    ///
    /// # Errors
    /// [`Error::Dlpack`] if the tensor is of another device, has another element type, is not
    /// compact in row-major order, or is of another major version; the errors of
    /// [`Device::pinned_uninit`]. The deleter has run, on this thread.
    ///
    /// ```
    /// use cuda_rt::PinnedBuffer;
    /// # use cuda_rt::interop::dlpack::DL_CPU;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # // SAFETY: this example alone uses the export.
    /// # let export = unsafe { gpu.pinned_from(&[1_i32, 2, 3, 4])?.into_dlpack(&[2, 2], None) }?;
    /// # let managed = export.into_raw();
    /// # // SAFETY: the tensor is live. Page-locked memory is memory of the host, too.
    /// # unsafe { (*managed).dl_tensor.device.device_type = DL_CPU };
    /// // SAFETY: `managed` was given away, and nothing writes its memory.
    /// let (host, shape) = unsafe { PinnedBuffer::<i32>::copy_of_dlpack(&gpu, managed) }?;
    /// assert_eq!((&host[..], &shape[..]), (&[1, 2, 3, 4][..], &[2, 2][..]));
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub unsafe fn copy_of_dlpack(
        gpu: &Device<D>,
        managed: *mut DLManagedTensorVersioned,
    ) -> Result<(Self, Vec<usize>)> {
        let refused = refused("PinnedBuffer::copy_of_dlpack");
        // SAFETY: this function's contract is RECEIVED-1.
        let received = unsafe { Received::versioned(managed) };
        // Dropped when the copy was made, or on an early return, and so ended.
        let received = received.ok_or_else(|| refused(DlpackError::Null))?;
        let checked = received.check_readable::<T>(ORDINARY).map_err(refused)?;
        let copy = gpu.pinned_uninit::<T>(checked.len)?;
        let start = match checked.bytes {
            0 => NonNull::<T>::dangling().as_ptr().cast_const(),
            _ => checked.start.cast_const().cast::<T>(),
        };
        let copy = match start.is_aligned() {
            true => {
                // SAFETY: by this function's contract the memory holds values of `T`, and nothing
                // writes it; `check_readable` compared its type and its length, and it is aligned.
                copy.init_from_slice(unsafe { std::slice::from_raw_parts(start, checked.len) })?
            }
            false => copy.init_with(|at| {
                let element = start.wrapping_add(at);
                // SAFETY: as above; a read of this kind needs no alignment.
                unsafe { element.read_unaligned() }
            }),
        };
        drop(received);
        Ok((copy, checked.shape))
    }
}
