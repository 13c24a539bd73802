//! Memory of cust for this crate, and memory of this crate for cust.

use std::cell::Cell;
use std::ptr;

use cust::memory::{DeviceBuffer as CustBuffer, DeviceCopy, DevicePointer, LockedBuffer};
use cust::sys::{self, CUpointer_attribute};

use super::stream::{check, cuda};
use crate::device::Device;
use crate::error::{During, Refused, Result};
use crate::memory::{DeviceBuffer, DeviceSlice, Element, PinnedBuffer};
use crate::order::unless::Leaked;
use crate::stream::Stream;
use crate::tag::{Idle, Live, Place, StreamTag};
use cuda_rt_driver::{DeviceAddress, DriverError, DriverResult, ErrorCode, RawStream};

impl<T: DeviceCopy, P> DeviceSlice<T, P> {
    /// The address of the memory as cust's type. It is a number: it keeps nothing alive, and a use
    /// takes `unsafe`.
    pub fn cust_pointer(&self) -> DevicePointer<T> {
        DevicePointer::from_raw(self.address().0)
    }
}

/// The origin of a buffer of cust.
enum Origin {
    /// A memory pool: the memory can be freed in stream order.
    Pool,
    /// `cuMemAlloc`: the memory cannot be freed in stream order.
    Allocated,
}

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// Takes a buffer of cust over. The stream owns the memory from then on, and frees it in its
    /// order.
    ///
    /// **Blocks** until all work of the context is done (`cuCtxSynchronize`): work enqueued through
    /// cust's `unsafe` calls may still use the buffer, and no type says until when. A buffer from a
    /// pool (`uninitialized_async`, `from_slice_async`, …) is taken over as it is; other GPUs
    /// have no access to that pool, and copies to them fail. A buffer from `cuMemAlloc`
    /// (`uninitialized`, `from_slice`, …) cannot be freed in stream order. The call copies it
    /// into memory of this crate, waits for the copy, and lets cust free the buffer.
    ///
    /// # Safety
    /// Cust's types promise less than ownership, so the caller promises the rest:
    /// - No [`cust::memory::DeviceSlice`] of the buffer is used afterwards. It is `Copy` and has no
    ///   lifetime, and its safe methods copy and fill.
    /// - The buffer owns its memory: it does not come from `DeviceBuffer::cast` or `try_cast` to
    ///   elements of another size. These functions free the memory and keep its address.
    /// - No work on the memory is pending in a context that is not the device's primary one. Cust's
    ///   `context::legacy` makes other contexts, and its safe `copy_from` and `set_8` do not wait.
    ///
    /// # Hazards prevented
    /// [H02](crate::hazards#h02), [H21](crate::hazards#h21), under these promises: no work on the
    /// memory is pending when it changes its owner, and cust can no longer free it.
    ///
    /// # Errors
    /// [`Refused`] with the buffer, unchanged: [`Error::Driver`](crate::Error::Driver) if it is not
    /// memory of this device, the wait for the context fails, or the device is simulated; and the
    /// errors of [`alloc_zeroed`](Self::alloc_zeroed). If the wait for the copy fails, the buffer
    /// is leaked, and [`Refused`] is empty: a failed wait is not a finished wait.
    pub unsafe fn adopt_cust_buffer<T: Element + DeviceCopy>(
        &self,
        buffer: CustBuffer<T>,
    ) -> Result<DeviceBuffer<T, S>, Refused<Option<CustBuffer<T>>>> {
        const CALL: &str = "Stream::adopt_cust_buffer";
        let (pointer, len) = (buffer.as_device_ptr(), buffer.len());
        if pointer.is_null() || len == 0 || size_of::<T>() == 0 {
            // There is no memory to own: cust allocates nothing for an empty buffer, and neither
            // does this crate.
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
                // SAFETY: CUDA says that the memory is from a pool, and `address` is its start. The
                // caller promises that cust's buffer owned it and that no slice is used; the buffer
                // is forgotten. `settle` waited for the primary context, and the caller promises
                // that nothing is pending in others. Allocations are aligned, and any bits are a
                // `T`.
                Ok(unsafe { DeviceBuffer::from_raw(self, address, len) })
            }
            // SAFETY: by this function's contract cust's buffer owns the memory, of that length, so
            // the memory lives as long as the buffer. `settle` waited for the primary context, and
            // by the contract no work is pending in other contexts. Any bits are a `T`.
            Origin::Allocated => unsafe { self.copied(buffer, address, len, CALL) },
        }
    }

    /// Waits for the context, and asks CUDA for the origin of the memory.
    fn settle(&self, address: sys::CUdeviceptr) -> DriverResult<Origin> {
        let driver = cuda(self.core())?;
        let ordinal = driver_ordinal(self);
        let result = Cell::new(Ok(Origin::Allocated));
        let ask = || result.set(ask(address, ordinal));
        // The foreign call makes the context current.
        cuda_rt_driver::Streams::foreign(&*driver, "cuCtxSynchronize", self.raw(), &[], &ask)?;
        result.into_inner()
    }
}

fn driver_ordinal<S: StreamTag>(stream: &Stream<S>) -> usize {
    stream.core().driver().properties().ordinal
}

fn ask(address: sys::CUdeviceptr, ordinal: usize) -> DriverResult<Origin> {
    const CALL: &str = "cuPointerGetAttribute";
    // SAFETY: the call takes no argument, and the context is current.
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
    // A driver that cannot answer counts as "no pool": the memory is then copied.
    let pooled = check(CALL, asked).is_ok() && !pool.is_null();
    Ok(if pooled { Origin::Pool } else { Origin::Allocated })
}

impl<T: Element + DeviceCopy, D: Live> DeviceBuffer<T, Idle<D>>
where
    Idle<D>: Place,
{
    /// Copies the buffer into memory of cust, and frees the buffer.
    ///
    /// **Blocks** until the copy is done (`cuMemAlloc`, `cuMemcpyDtoD` on the default stream,
    /// `cuStreamSynchronize`).
    ///
    /// The memory itself stays in this crate, because it is from a pool. Cust's safe `copy_from`
    /// and `set_8` do not wait. They are sound because `cuMemFree` waits for all work on memory of
    /// `cuMemAlloc`. For memory of a pool it does not wait, and the pool would reuse the memory
    /// under that work.
    ///
    /// # Hazards prevented
    /// [H21](crate::hazards#h21): no work outside the order of the device's streams uses memory of
    /// the device's pool.
    ///
    /// # Errors
    /// [`Refused`] with the buffer, unchanged: on a simulated device, without memory for the copy,
    /// or if a [loan](crate::Stream::lend) on this device could not be joined. If the wait for the
    /// copy fails, the buffer is leaked, and [`Refused`] is empty.
    #[track_caller]
    pub fn into_cust(self) -> Result<CustBuffer<T>, Refused<Option<Self>>> {
        const CALL: &str = "DeviceBuffer::into_cust";
        let core = self.core();
        let driver = match core.check().during(CALL).and_then(|()| cuda(core).during(CALL)) {
            Ok(driver) => driver,
            Err(error) => {
                let value = Some(self);
                return Err(Refused { error, value });
            }
        };
        let (source, len) = (self.address().0, self.len());
        if len == 0 || size_of::<T>() == 0 {
            // SAFETY: cust represents an empty buffer by a null pointer, and frees nothing.
            return Ok(unsafe { CustBuffer::from_raw_parts(DevicePointer::null(), len) });
        }
        // A failed wait is not a finished wait, and neither is a wait that unwinds: the buffer is
        // then leaked.
        let ours = Leaked::new(self);
        let copied = Cell::new(None);
        let copy = || copied.set(Some(copy_out(source, len * size_of::<T>())));
        let entered = cuda_rt_driver::Streams::foreign(&*driver, CALL, DEFAULT_STREAM, &[], &copy);
        match (entered, copied.into_inner()) {
            (Ok(()), Some(Ok(copy))) => {
                drop(ours.take_back());
                // SAFETY: the memory is from `cuMemAlloc`, has that length, and nothing else owns
                // it. The copy is done, and wrote values of `T` to all of it.
                Ok(unsafe { CustBuffer::from_raw_parts(DevicePointer::from_raw(copy), len) })
            }
            (Ok(()), Some(Err(CopyOut { error, may_run }))) => {
                let value = (!may_run).then(|| ours.take_back());
                let error = Err::<(), _>(error).during(CALL).expect_err("made of an error");
                Err(Refused { error, value })
            }
            (entered, _) => {
                // The copy was not made.
                let unknown = || DriverError::new("cuCtxPushCurrent", ErrorCode::UNKNOWN);
                let error = entered.err().unwrap_or_else(unknown);
                let error = Err::<(), _>(error).during(CALL).expect_err("made of an error");
                let value = Some(ours.take_back());
                Err(Refused { error, value })
            }
        }
    }
}

/// The legacy default stream, on which `cuMemcpyDtoD` runs. [`CudaDriver`] enters its context for a
/// foreign call, and does nothing with the stream.
///
/// [`CudaDriver`]: cuda_rt_driver_cuda::CudaDriver
const DEFAULT_STREAM: RawStream = RawStream(0);

/// The error of a failed copy to cust's memory.
struct CopyOut {
    error: DriverError,
    /// Whether the copy may still be running: its wait failed.
    may_run: bool,
}

/// Copies `bytes` from `source` to new memory of `cuMemAlloc`, and waits for the copy. The device's
/// context must be current.
fn copy_out(source: sys::CUdeviceptr, bytes: usize) -> Result<sys::CUdeviceptr, CopyOut> {
    let mut target = 0;
    // SAFETY: the pointer is to a live address.
    let allocated = check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut target, bytes) });
    allocated.map_err(|error| CopyOut {
        error,
        may_run: false,
    })?;
    // SAFETY: source and target are live, of that length, and do not overlap. No work uses the
    // target, which is new, or the source, which is idle (BUFFER-2).
    let copied = check("cuMemcpyDtoD", unsafe {
        sys::cuMemcpyDtoD_v2(target, source, bytes)
    });
    // The wait follows a failed copy too: the driver's error does not prove that no copy was
    // started.
    // SAFETY: the default stream always exists.
    let waited = check("cuStreamSynchronize", unsafe {
        sys::cuStreamSynchronize(ptr::null_mut())
    });
    let may_run = waited.is_err();
    copied.and(waited).map(|()| target).map_err(|error| {
        if !may_run {
            // SAFETY: the memory was allocated above, and nothing uses it. An error leaks it.
            let _ = unsafe { sys::cuMemFree_v2(target) };
        }
        CopyOut { error, may_run }
    })
}

impl<D: Live> Device<D> {
    /// Copies a pinned buffer of cust into pinned memory of this crate, and frees cust's buffer.
    /// Blocks for the copy.
    ///
    /// The memory itself is not taken over, because it is unmapped with its context. A `&[T]` into
    /// it would dangle after a reset by other code (docs/soundness.md, obligation 6).
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
