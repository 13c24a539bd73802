//! Mapped pinned memory ("zero-copy"): kernels, copies and fills reach pinned host memory in place.
//!
//! Pinned memory that a stream owns is out of the host's reach until a handoff was waited for. The
//! views made here borrow such memory, so all that holds for device memory of the stream holds for
//! them: only the stream's own work uses them, and a writer borrows uniquely.

use std::fmt;
use std::mem::MaybeUninit;

use crate::error::{During, Error, Refused, Result};
use crate::kernel::KernelOutput;
use crate::memory::{DeviceSlice, Element, PinnedBuffer, PinnedSlice};
use crate::stream::Stream;
use crate::tag::{ReadBy, StreamTag, WriteBy};
use cuda_rt_driver::DeviceAddress;

/// Mapped pinned memory.
impl<S: StreamTag> Stream<S> {
    /// Pinned memory as memory that kernels and copies of this stream read in place
    /// (`cuMemHostGetDevicePointer`). Enqueues nothing and does not block.
    ///
    /// Each access of a kernel crosses the bus between GPU and host. So this pays for data that a
    /// kernel reads once, or reads little of; data that is read often is
    /// [copied](Self::copy_to_device) first.
    ///
    /// Arguments of kernels, [copies](Self::copy), [fills](Self::fill), [loans](Self::lend) and
    /// captures take the result. Collectives take buffers of the device only.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13) and [H14](crate::hazards#h14): the host reaches the memory only
    /// after a wait for this stream's work ([`synchronize`](crate::Handoff::synchronize)).
    /// [H16](crate::hazards#h16): the memory is neither unmapped nor reused before that work is
    /// over.
    ///
    /// # Errors
    /// [`Error::Driver`] if this device cannot reach the memory. That happens only to memory that
    /// other code page-locked, and to pinned memory of devices that were simulated apart.
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let table = compute.adopt(gpu.pinned_from(&[1.0_f32, 2.0, 3.0])?)?;
    /// let mut on_device = compute.alloc_zeroed(2)?;
    /// compute.copy(compute.mapped(&table[1..])?, &mut on_device)?;
    /// assert_eq!(compute.copy_to_vec(&on_device)?, [2.0, 3.0]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[doc(alias = "zero-copy")]
    #[doc(alias = "cudaHostGetDevicePointer")]
    pub fn mapped<'a, T, P: ReadBy<S>>(&self, host: &'a PinnedSlice<T, P>) -> Result<&'a DeviceSlice<T, P>> {
        let address = self.mapped_address(host, "Stream::mapped")?;
        // SAFETY: SLICE-1: by PINNED-SLICE-1 the memory is live for `'a` and belongs to the place
        // `P`. CUDA gave the address by which the device of `S` reaches it, and `P` is `S`
        // (`ReadBy`). `host` is borrowed, so no `&mut` overlaps.
        Ok(unsafe { DeviceSlice::from_raw(address, host.len()) })
    }

    /// Like [`mapped`](Self::mapped), for work that also writes the memory. The host sees the
    /// written values once it has waited for a handoff of the buffer.
    ///
    /// # Hazards prevented
    /// [H11](crate::hazards#h11) (the view is unique), [H13](crate::hazards#h13),
    /// [H14](crate::hazards#h14), [H16](crate::hazards#h16).
    ///
    /// # Errors
    /// As [`mapped`](Self::mapped).
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let mut host = compute.adopt(gpu.pinned::<u32>(4)?)?;
    /// compute.fill(compute.mapped_mut(&mut host)?, 7)?; // the GPU fills host memory
    /// assert_eq!(*compute.release(host)?.synchronize()?, [7; 4]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn mapped_mut<'a, T, P: WriteBy<S>>(
        &self,
        host: &'a mut PinnedSlice<T, P>,
    ) -> Result<&'a mut DeviceSlice<T, P>> {
        let address = self.mapped_address(host, "Stream::mapped_mut")?;
        // SAFETY: SLICE-1 as in `mapped`. SLICE-2: `host` is borrowed uniquely for `'a`, and not
        // used again during it (PINNED-SLICE-2).
        Ok(unsafe { DeviceSlice::from_raw_mut(address, host.len()) })
    }

    /// Uninitialised pinned memory as the output of a kernel that returns its element
    /// ([`KernelOutput`]). The launch gives the pinned buffer back, readable.
    ///
    /// # Hazards prevented
    /// [H39](crate::hazards#h39): the buffer is readable only after a launch that writes all of it.
    /// [H13](crate::hazards#h13), [H14](crate::hazards#h14).
    ///
    /// # Errors
    /// As [`mapped`](Self::mapped); [`Refused`] holds the buffer.
    ///
    /// ```standalone_crate
    /// use device_std::prelude::*;
    /// # device_std::kernel_module!(concat!(
    /// #     env!("CARGO_MANIFEST_DIR"),
    /// #     "/../cuda-rt/tests/conformance/kernels.ptx"
    /// # ));
    /// # cuda_rt::streams! { pub Compute; }
    ///
    /// #[kernel]
    /// fn add(i: Index1, a: &[f32], b: &[f32]) -> f32 {
    ///     a[i.get()] + b[i.get()]
    /// }
    ///
    /// # fn main() -> cuda_rt::Result<()> {
    /// # let gpu = cuda_rt::Device::simulated(Default::default(), |gpu| {
    /// let compute = gpu.stream::<Compute<_>>()?;
    /// let a = compute.adopt(gpu.pinned_from(&[1.0; 512])?)?;
    /// let b = compute.adopt(gpu.pinned_from(&[2.0; 512])?)?;
    /// let sum = compute.mapped_output(compute.adopt(gpu.pinned_uninit::<f32>(512)?)?)?;
    /// let grid = cuda_rt::Grid1::covering(512);
    /// let (a, b) = (compute.mapped(&a)?, compute.mapped(&b)?);
    /// let sum = add(&compute, grid, a, b, sum)?; // PinnedBuffer<f32, Compute>
    /// assert_eq!(*compute.release(sum)?.synchronize()?, [3.0; 512]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// # })?;
    /// # gpu
    /// # }
    /// ```
    pub fn mapped_output<T: Element>(
        &self,
        buffer: PinnedBuffer<MaybeUninit<T>, S>,
    ) -> Result<MappedOutput<T, S>, Refused<PinnedBuffer<MaybeUninit<T>, S>>> {
        match self.mapped_address(&buffer, "Stream::mapped_output") {
            Ok(address) => Ok(MappedOutput { buffer, address }),
            Err(error) => Err(Refused { error, value: buffer }),
        }
    }

    /// Writes `value` to every element of uninitialised pinned memory, and so makes the buffer
    /// readable (`cuMemsetD8Async` and its wider and 2-D forms). Stream-ordered: the GPU writes,
    /// and the host reaches the result through the handoff's
    /// [`synchronize`](crate::Handoff::synchronize). Pinned memory that was written before is
    /// filled through [`mapped_mut`](Self::mapped_mut).
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H39](crate::hazards#h39).
    ///
    /// # Errors
    /// [`Error::Driver`]; the buffer then goes back to its pool.
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let host = compute.adopt(gpu.pinned_uninit(4)?)?;
    /// let host = compute.init_host_filled(host, 2.5_f32)?; // PinnedBuffer<f32, Compute>
    /// assert_eq!(*compute.release(host)?.synchronize()?, [2.5; 4]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn init_host_filled<T: Element>(
        &self,
        buffer: PinnedBuffer<MaybeUninit<T>, S>,
        value: T,
    ) -> Result<PinnedBuffer<T, S>> {
        let call = self.call("Stream::init_host_filled");
        let address = self.mapped_address(&buffer, call.name())?;
        self.raw_fill(&call, address, bytemuck::bytes_of(&value), buffer.len())?;
        // SAFETY: every element is written in this stream's order, which later uses of the buffer
        // follow; the host reaches it behind a wait.
        Ok(unsafe { buffer.assume_init() })
    }

    /// The address by which this stream's device reaches `host`; a dangling address if there are no
    /// bytes.
    fn mapped_address<T, P>(&self, host: &PinnedSlice<T, P>, during: &'static str) -> Result<DeviceAddress> {
        if host.len() * size_of::<T>() == 0 {
            return Ok(DeviceSlice::<T, P>::empty_address());
        }
        let mapped = self.core().driver().mapped_address(host.address());
        mapped.during(during)
    }
}

/// Uninitialised pinned memory of the stream `S` as the output of a kernel that returns its
/// element. [`Stream::mapped_output`] makes it.
///
/// Dropping it gives the memory back to its pool, as a dropped buffer does.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let memory = compute.adopt(gpu.pinned_uninit::<f32>(512)?)?;
/// let output = compute.mapped_output(memory).map_err(|refused| refused.error)?;
/// // A launch takes `output` by value. Without a launch the memory comes back as it was.
/// let memory = output.into_buffer();
/// assert_eq!(memory.len(), 512);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// MAPPED-OUTPUT-1. `address` is the address by which the device of `S` reaches the memory of
// `buffer`.
#[must_use = "dropping it gives the memory back; a launch takes it as its output"]
pub struct MappedOutput<T, S: StreamTag> {
    buffer: PinnedBuffer<MaybeUninit<T>, S>,
    address: DeviceAddress,
}

impl<T, S: StreamTag> fmt::Debug for MappedOutput<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MappedOutput({:#x}, {} elements)",
            self.address.0,
            self.buffer.len()
        )
    }
}

impl<T, S: StreamTag> MappedOutput<T, S> {
    /// The buffer, still uninitialised: no launch took it.
    pub fn into_buffer(self) -> PinnedBuffer<MaybeUninit<T>, S> {
        self.buffer
    }
}

// SAFETY: the buffer owns its memory, and belongs to `S` (PINNED-1, PINNED-4). The device reaches
// the memory at `address` (MAPPED-OUTPUT-1).
unsafe impl<T: Element, S: StreamTag> KernelOutput<S, T> for MappedOutput<T, S> {
    type Written = PinnedBuffer<T, S>;
    type Error = Refused<Self>;

    #[inline]
    fn memory(&self) -> [u64; 2] {
        [self.address.0, self.buffer.len() as u64]
    }

    #[inline]
    unsafe fn written(self) -> PinnedBuffer<T, S> {
        // SAFETY: each element is written in the order of `S` by this function's contract, and `S`
        // is the buffer's stream.
        unsafe { self.buffer.assume_init() }
    }

    fn refused(self, error: Error) -> Refused<Self> {
        Refused { error, value: self }
    }
}
