use std::ptr;

use cust::memory::{DeviceBuffer as CustBuffer, DeviceCopy, DevicePointer, LockedBuffer};
use cust::sys::{self, CUpointer_attribute};

use super::stream::{check, cuda};
use crate::device::Device;
use crate::error::{During, Refused, Result};
use crate::memory::{DeviceBuffer, DeviceSlice, Element, PinnedBuffer};
use crate::stream::Stream;
use crate::tag::{Idle, Live, Place, StreamTag};
use cuda_rt_driver::{DeviceAddress, DriverError, DriverResult, ErrorCode};

impl<T: DeviceCopy, P> DeviceSlice<T, P> {
    /// Its address as cust writes it. A number: it keeps nothing alive, and using it takes
    /// `unsafe`.
    pub fn cust_pointer(&self) -> DevicePointer<T> {
        DevicePointer::from_raw(self.address().0)
    }
}

/// Where a buffer of cust's came from.
enum Origin {
    /// A memory pool: it can be freed in stream order.
    Pool,
    /// `cuMemAlloc`: it can't.
    Allocated,
}

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// Owns a buffer of cust's: it is the stream's from then on, and freed in its order.
    ///
    /// **Blocks** until all work of the context is done (`cuCtxSynchronize`): what was enqueued
    /// through cust's `unsafe` calls may use the buffer still, and no type says until when. A
    /// buffer from a pool (`uninitialized_async`, `from_slice_async`, …) is taken as it is; other
    /// GPUs have no access to that pool, and copies to them fail. One from `cuMemAlloc`
    /// (`uninitialized`, `from_slice`, …) cannot be freed in stream order: it is copied into memory
    /// of ours, which is waited for, and then freed by cust.
    ///
    /// # Hazards prevented
    /// H02, H21: nothing is pending on the memory when it changes hands, and cust can free it no
    /// more.
    ///
    /// # Errors
    /// [`Refused`] with the buffer, as it was: [`Error::Driver`](crate::Error::Driver) if it is not
    /// memory of this device, the context cannot be waited for, or the device is simulated; and
    /// those of [`alloc_zeroed`](Self::alloc_zeroed). Without the buffer, which is leaked, if its
    /// copy cannot be waited for: a failed wait is not a finished wait.
    pub fn adopt_cust_buffer<T: Element + DeviceCopy>(
        &self,
        buffer: CustBuffer<T>,
    ) -> Result<DeviceBuffer<T, S>, Refused<Option<CustBuffer<T>>>> {
        const CALL: &str = "Stream::adopt_cust_buffer";
        let (pointer, len) = (buffer.as_device_ptr(), buffer.len());
        if pointer.is_null() || len == 0 || size_of::<T>() == 0 {
            // Nothing to own: cust allocates nothing for it, and neither do we.
            return self.alloc_zeroed(0).map_err(|error| {
                let value = Some(buffer);
                Refused { error, value }
            });
        }
        let origin = match self.settle(pointer.as_raw()).during(CALL) {
            Ok(origin) => origin,
            Err(error) => {
                let value = Some(buffer);
                return Err(Refused { error, value });
            }
        };
        let address = DeviceAddress(pointer.as_raw());
        match origin {
            Origin::Pool => {
                std::mem::forget(buffer);
                // SAFETY: it came from a pool, as CUDA says, at its start, and cust no longer owns
                // it; the contract of cust's own `from_raw_parts` makes it of that length. All work
                // is done. It is aligned as allocations are, and any bits are a `T`.
                Ok(unsafe { DeviceBuffer::from_raw(self, address, len) })
            }
            // SAFETY: it is live while cust's buffer is, of that length, any bits are a `T`, and
            // all work is done.
            Origin::Allocated => unsafe { self.copied(buffer, address, len, CALL) },
        }
    }

    /// Waits for the context, and asks where the memory came from.
    fn settle(&self, address: sys::CUdeviceptr) -> DriverResult<Origin> {
        let driver = cuda(self.core())?;
        let ordinal = driver_ordinal(self);
        let mut result = Ok(Origin::Allocated);
        let mut ask = || result = ask(address, ordinal);
        // With the context current.
        cuda_rt_driver::Driver::foreign(&*driver, "cuCtxSynchronize", self.raw(), &[], &mut ask)?;
        result
    }
}

fn driver_ordinal<S: StreamTag>(stream: &Stream<S>) -> usize {
    stream.core().driver().properties().ordinal
}

fn ask(address: sys::CUdeviceptr, ordinal: usize) -> DriverResult<Origin> {
    const CALL: &str = "cuPointerGetAttribute";
    // SAFETY: it takes nothing.
    check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })?;
    let mut device = -1_i32;
    let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the pointer is to a live int, as CUDA asks for this attribute.
    let asked = unsafe { sys::cuPointerGetAttribute((&raw mut device).cast(), attribute, address) };
    check(CALL, asked)?;
    if usize::try_from(device) != Ok(ordinal) {
        let detail = format!("the buffer is memory of device {device}, the stream of {ordinal}");
        return Err(DriverError::with_detail(CALL, ErrorCode::INVALID_VALUE, detail));
    }
    let mut pool = ptr::null_mut::<std::ffi::c_void>();
    let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    // SAFETY: the pointer is to a live handle, as CUDA asks for this attribute.
    let asked = unsafe { sys::cuPointerGetAttribute((&raw mut pool).cast(), attribute, address) };
    // A driver that does not tell is as one that says no.
    let pooled = check(CALL, asked).is_ok() && !pool.is_null();
    Ok(if pooled { Origin::Pool } else { Origin::Allocated })
}

impl<T: Element + DeviceCopy, D: Live> DeviceBuffer<T, Idle<D>>
where
    Idle<D>: Place,
{
    /// Gives the memory to cust, which frees it with `cuMemFree`. It is idle, so nothing is
    /// pending.
    ///
    /// # Errors
    /// [`Refused`] with the buffer, as it was, on a simulated device, or if a
    /// [loan](crate::Stream::lend) there could not be joined.
    ///
    /// # Panics
    /// If it is a part that was [split off](DeviceBuffer::split_off) and not joined again.
    #[track_caller]
    pub fn into_cust(self) -> Result<CustBuffer<T>, Refused<Self>> {
        let core = self.core();
        const CALL: &str = "DeviceBuffer::into_cust";
        let driver = cuda(core).during(CALL);
        if let Err(error) = driver.and_then(|_| core.check().during(CALL)) {
            return Err(Refused { error, value: self });
        }
        let (address, len) = (self.address(), self.len());
        self.forget_memory();
        let pointer = if len == 0 || size_of::<T>() == 0 {
            DevicePointer::null()
        } else {
            DevicePointer::from_raw(address.0)
        };
        // SAFETY: an allocation of that length which nothing else owns (BUFFER-1); memory from a
        // pool may be freed by `cuMemFree` once its uses are over, which they are (BUFFER-2, and
        // idle).
        Ok(unsafe { CustBuffer::from_raw_parts(pointer, len) })
    }
}

impl<D: Live> Device<D> {
    /// Takes a pinned buffer of cust's over: its contents move into pinned memory of ours, and it
    /// is freed. Blocks for the copy.
    ///
    /// Not the memory itself, for it is unmapped with its context: a `&[T]` into it would dangle
    /// after a reset by other code (docs/soundness.md, obligation 6).
    ///
    /// # Errors
    /// As [`pinned`](Self::pinned).
    #[track_caller]
    pub fn adopt_cust_pinned<T: Element + DeviceCopy>(
        &self,
        buffer: LockedBuffer<T>,
    ) -> Result<PinnedBuffer<T, Idle<D>>> {
        self.pinned_from(buffer.as_slice())
    }
}
