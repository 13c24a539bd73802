//! [`Held`]: the memory of a tensor, without its types.

use std::ptr::NonNull;

use cuda_rt_runtime::driver::{DeviceAddress, RawStream};
use cuda_rt_runtime::interop::dlpack::{DLDataType, DLDevice, DlpackElement, DlpackExport, DlpackShared};
use cuda_rt_runtime::{Bundle, Device, DeviceBuffer, DeviceSlice, Idle, Live, PinnedBuffer, Result};

use crate::capsule::{Managed, Pointer};

cuda_rt_runtime::streams! {
    /// The stream on which copies for consumers are made.
    Copies;
}

/// Memory that can be lent to consumers.
pub(crate) trait Held: Send + Sync {
    /// Lends the memory: [`DlpackShared::lend`]. May block, so the caller releases the GIL.
    ///
    /// # Safety
    /// As for [`DlpackShared::lend`].
    unsafe fn lend(&self, consumer: Option<RawStream>, versioned: bool) -> Result<Managed>;

    /// A copy of the memory, which is made on the GPU for memory of the GPU.
    ///
    /// # Safety
    /// Consumers that have not ended do not write the memory meanwhile.
    unsafe fn copied(&self) -> Result<Box<dyn Held>>;

    /// A copy of the memory in page-locked memory of the host. The host has waited for it: nothing
    /// is pending. Blocks, so the caller releases the GIL.
    ///
    /// # Safety
    /// As for [`copied`](Self::copied).
    unsafe fn downloaded(&self) -> Result<Box<dyn Held>>;

    fn device(&self) -> DLDevice;
    fn dtype(&self) -> DLDataType;
    fn shape(&self) -> &[i64];
    fn address(&self) -> DeviceAddress;
    /// Whether the device is simulated, and so has no default streams.
    fn is_simulated(&self) -> bool;
}

/// Memory of a bundle `R` on the device `D`.
pub(crate) struct Typed<R: Bundle, D> {
    pub(crate) gpu: Device<D>,
    pub(crate) shared: DlpackShared<R>,
}

/// The tensor of an export, which nobody has taken yet.
fn managed<R: Bundle + Send>(export: DlpackExport<R>, versioned: bool) -> Managed {
    let pointer = match versioned {
        true => NonNull::new(export.into_raw()).map(Pointer::Versioned),
        false => NonNull::new(export.into_raw_unversioned()).map(Pointer::Unversioned),
    };
    let Some(pointer) = pointer else {
        unreachable!("an export is at no null pointer");
    };
    // SAFETY: CAPSULE-1: the export gave its tensor away just now, and its deleter runs on any
    // thread.
    unsafe { Managed::new(pointer) }
}

/// The methods that are alike for memory of the device and for page-locked memory.
macro_rules! alike {
    () => {
        unsafe fn lend(&self, consumer: Option<RawStream>, versioned: bool) -> Result<Managed> {
            // SAFETY: this function's contract.
            let export = unsafe { self.shared.lend(consumer) }?;
            Ok(managed(export, versioned))
        }

        fn device(&self) -> DLDevice {
            self.shared.device()
        }

        fn dtype(&self) -> DLDataType {
            self.shared.dtype()
        }

        fn shape(&self) -> &[i64] {
            self.shared.shape()
        }

        fn address(&self) -> DeviceAddress {
            self.shared.address()
        }

        fn is_simulated(&self) -> bool {
            self.gpu.is_simulated()
        }
    };
}

/// The extents and the number of elements.
fn extents(shape: &[i64]) -> (Vec<usize>, usize) {
    let extents: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
    let len = match extents.contains(&0) {
        true => 0,
        false => extents.iter().product(),
    };
    (extents, len)
}

impl<T, D> Held for Typed<DeviceBuffer<T, Idle<D>>, D>
where
    T: DlpackElement,
    D: Live + 'static,
{
    alike! {}

    unsafe fn copied(&self) -> Result<Box<dyn Held>> {
        let copies = self.gpu.stream::<Copies<D>>()?;
        let (shape, len) = extents(self.shared.shape());
        // The stream of copies is a consumer.
        // SAFETY: it lives as long as the device, and has all uses.
        let lent = unsafe { self.lend(Some(copies.raw()), true) }?;
        let copy = copies.alloc_uninit::<T>(len)?;
        let copy = match len {
            // SAFETY: nothing to initialise.
            0 => unsafe { copy.assume_init() },
            _ => {
                // SAFETY: `lent` keeps the memory, which holds as many elements, and made the
                // stream wait for all writes. Nobody else writes, by this function's contract.
                let source =
                    unsafe { DeviceSlice::<T, Copies<D>>::from_raw_parts(self.shared.address(), len) };
                copies.init_from(copy, source)?
            }
        };
        drop(lent);
        let copy = copies.release(copy)?;
        let gpu = self.gpu.clone();
        let shared = DlpackShared::new(&gpu, copy, &shape).map_err(|refused| refused.error)?;
        Ok(Box::new(Typed { gpu, shared }))
    }

    unsafe fn downloaded(&self) -> Result<Box<dyn Held>> {
        let copies = self.gpu.stream::<Copies<D>>()?;
        let (shape, len) = extents(self.shared.shape());
        let host = match len {
            0 => self.gpu.pinned_from::<T>(&[])?,
            _ => {
                let host = copies.adopt(self.gpu.pinned_uninit::<T>(len)?)?;
                // SAFETY: as in `copied`: the stream of copies has all uses.
                let lent = unsafe { self.lend(Some(copies.raw()), true) }?;
                // SAFETY: as in `copied`.
                let source =
                    unsafe { DeviceSlice::<T, Copies<D>>::from_raw_parts(self.shared.address(), len) };
                let host = copies.init_host_from(host, source)?;
                drop(lent);
                // The host waits for the copy.
                copies.release(host)?.synchronize()?
            }
        };
        let gpu = self.gpu.clone();
        let shared = DlpackShared::of_pinned(host, &shape).map_err(|refused| refused.error)?;
        Ok(Box::new(Typed { gpu, shared }))
    }
}

impl<T, D> Held for Typed<PinnedBuffer<T, Idle<D>>, D>
where
    T: DlpackElement,
    D: Live + 'static,
{
    alike! {}

    unsafe fn copied(&self) -> Result<Box<dyn Held>> {
        let (shape, len) = extents(self.shared.shape());
        // The host is the consumer: it waits.
        // SAFETY: the copy is made before `lent` ends.
        let lent = unsafe { self.lend(None, true) }?;
        let copy = match len {
            0 => self.gpu.pinned_from::<T>(&[])?,
            _ => {
                let start = std::ptr::with_exposed_provenance(self.shared.address().0 as usize);
                // SAFETY: `lent` keeps the memory, which holds as many elements, and nothing writes
                // it: the host has waited, and the rest is this function's contract.
                let source = unsafe { std::slice::from_raw_parts(start, len) };
                self.gpu.pinned_from::<T>(source)?
            }
        };
        drop(lent);
        let gpu = self.gpu.clone();
        let shared = DlpackShared::of_pinned(copy, &shape).map_err(|refused| refused.error)?;
        Ok(Box::new(Typed { gpu, shared }))
    }

    unsafe fn downloaded(&self) -> Result<Box<dyn Held>> {
        // SAFETY: this function's contract.
        unsafe { self.copied() }
    }
}
