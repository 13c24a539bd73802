//! Device memory from a pool of our own, page-locking of host memory, and copies.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::context::Context;
use super::ffi::{
    self, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationType, CUmemLocation, CUmemLocationType,
    CUmemPool_attribute, CUmemPoolProps,
};
use super::library::Permitted;
use super::stream;
use cuda_rt_driver::{
    DeviceAddress, DriverError, DriverResult, ErrorCode, HostMemory, MemoryInfo, MemoryPoolStats, RawStream,
};

/// A memory pool on one device that only this process uses; all code in the process shares the
/// device's default pool.
///
/// The pool reuses memory in the order of one stream, or on another stream once the free was seen
/// done (opportunistic reuse). Two settings would let the pool itself order one stream behind
/// another; both are off. Only handoffs make edges between streams, so concurrency does not depend
/// on which memory was freed where. The pool is never destroyed, because its context is not.
#[derive(Debug)]
pub(super) struct Pool(ffi::CUmemoryPool);

// SAFETY: a memory pool may be used from any thread; the pointer is only a name for it, never
// dereferenced here.
unsafe impl Send for Pool {}
// SAFETY: as above, and the driver API is thread-safe.
unsafe impl Sync for Pool {}

impl Pool {
    pub(super) fn create(context: &Context) -> DriverResult<Self> {
        let entered = context.enter()?;
        let properties = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: 0,
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: context.device(),
            },
            win32SecurityAttributes: ptr::null_mut(),
            reserved: [0; 64],
        };
        let mut pool = ptr::null_mut();
        // SAFETY: the pointers are to a live pool handle and to live properties, whose unused parts
        // are zero.
        unsafe { entered.library().cuMemPoolCreate(&mut pool, &properties) }?;

        let mut keep_bytes = u64::MAX;
        let mut off = 0_i32;
        let mut on = 1_i32;
        use CUmemPool_attribute as Attribute;
        let settings = [
            // Memory returns to the system when an allocation would otherwise fail, not at each
            // synchronisation.
            (
                Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut keep_bytes).cast(),
            ),
            (
                Attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                (&raw mut off).cast(),
            ),
            (
                Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                (&raw mut off).cast(),
            ),
            (
                Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                (&raw mut on).cast(),
            ),
        ];
        for (attribute, value) in settings {
            // SAFETY: the pool is live; the value is a live u64 for the threshold and an int for
            // the others, as CUDA asks.
            unsafe { entered.library().cuMemPoolSetAttribute(pool, attribute, value) }?;
        }
        Ok(Self(pool))
    }

    pub(super) fn stats(&self, context: &Context) -> DriverResult<MemoryPoolStats> {
        let entered = context.enter()?;
        let read = |attribute| {
            let mut value = 0_u64;
            // SAFETY: the pool is live; the value is a live u64, as CUDA asks for each of the
            // attributes below.
            unsafe {
                entered
                    .library()
                    .cuMemPoolGetAttribute(self.0, attribute, (&raw mut value).cast())
            }?;
            Ok(value)
        };
        use CUmemPool_attribute as Attribute;
        // Read in this order, so that allocations made meanwhile do not make `used` larger than
        // `reserved`.
        Ok(MemoryPoolStats {
            used_bytes: read(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
            used_peak_bytes: read(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?,
            reserved_bytes: read(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            reserved_peak_bytes: read(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?,
            release_threshold_bytes: read(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)?,
        })
    }

    /// Lets `device` read and write all memory of the pool, now and later.
    pub(super) fn grant(&self, context: &Context, device: ffi::CUdevice) -> DriverResult<()> {
        let entered = context.enter()?;
        let access = CUmemAccessDesc {
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device,
            },
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the pool is live, and the pointer is to one live description.
        unsafe { entered.library().cuMemPoolSetAccess(self.0, &access, 1) }
    }

    pub(super) fn reset_peaks(&self, context: &Context) -> DriverResult<()> {
        // CUDA accepts only 0 here, and restarts the peak at the present value.
        self.set(context, CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0)?;
        self.set(context, CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)
    }

    pub(super) fn set_release_threshold(&self, context: &Context, bytes: u64) -> DriverResult<()> {
        self.set(
            context,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
            bytes,
        )
    }

    /// Sets an attribute whose value is a u64.
    fn set(&self, context: &Context, attribute: CUmemPool_attribute, mut value: u64) -> DriverResult<()> {
        let entered = context.enter()?;
        // SAFETY: the pool is live. The value is a live u64, as CUDA demands for the attributes
        // that the callers pass.
        unsafe {
            entered
                .library()
                .cuMemPoolSetAttribute(self.0, attribute, (&raw mut value).cast())
        }
    }

    pub(super) fn trim(&self, context: &Context, keep_bytes: u64) -> DriverResult<()> {
        let entered = context.enter()?;
        let keep_bytes = usize::try_from(keep_bytes).unwrap_or(usize::MAX);
        // SAFETY: the pool is live.
        unsafe { entered.library().cuMemPoolTrimTo(self.0, keep_bytes) }
    }

    /// # Safety
    /// The handle is live.
    pub(super) unsafe fn alloc(
        &self,
        context: &Context,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<DeviceAddress> {
        let entered = context.enter()?;
        let library = entered.library();
        let mut address = 0;
        let mut alloc = || {
            // SAFETY: the pointer is to a live address, and pool and stream are live.
            unsafe { library.cuMemAllocFromPoolAsync(&mut address, bytes, self.0, stream::handle(stream)) }
        };
        // SAFETY: the pool is live.
        let trim = || unsafe { library.cuMemPoolTrimTo(self.0, 0) };
        match alloc() {
            Err(error) if error.code() == ErrorCode::OUT_OF_MEMORY => {
                // The pool may hold only pieces that are too small for this allocation. Trimming
                // returns them to the device.
                trim()?;
                alloc().map_err(|error| {
                    // Otherwise the pool keeps the memory that the attempt took, and everyone else
                    // lacks it, new contexts included.
                    let _ = trim();
                    out_of_memory(context, error, bytes)
                })
            }
            done => done,
        }?;
        Ok(DeviceAddress(address))
    }
}

fn out_of_memory(context: &Context, error: DriverError, bytes: usize) -> DriverError {
    let rest = match info(context) {
        Ok(info) => format!(" ({} of {} bytes free)", info.free_bytes, info.total_bytes),
        Err(_) => String::new(),
    };
    let detail = format!("{bytes} bytes on device {}{rest}", context.ordinal());
    DriverError::with_detail(error.call(), error.code(), detail)
}

/// # Safety
/// As [`Memory::free`](cuda_rt_driver::Memory::free).
#[inline]
pub(super) unsafe fn free(context: &Context, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
    let entered = context.enter()?;
    // SAFETY: by this function's contract the address came from this pool, and its last use is
    // ordered before this place in the stream.
    unsafe {
        entered
            .library()
            .cuMemFreeAsync(address.0, stream::handle(stream))
    }
}

pub(super) fn info(context: &Context) -> DriverResult<MemoryInfo> {
    let entered = context.enter()?;
    let (mut free, mut total) = (0, 0);
    // SAFETY: the pointers are to live numbers, and the context is current.
    unsafe { entered.library().cuMemGetInfo_v2(&mut free, &mut total) }?;
    Ok(MemoryInfo {
        free_bytes: free as u64,
        total_bytes: total as u64,
    })
}

/// # Safety
/// As [`Memory::register_host`](cuda_rt_driver::Memory::register_host).
pub(super) unsafe fn register_host(context: &Context, memory: &HostMemory) -> DriverResult<()> {
    let entered = context.enter()?;
    // SAFETY: the memory is mapped for that many bytes (HOST-MEMORY-1), and by this function's
    // contract is not registered yet.
    let registered = unsafe {
        entered.library().cuMemHostRegister_v2(
            memory.address().as_ptr(),
            memory.len_bytes(),
            ffi::CU_MEMHOSTREGISTER_PORTABLE | ffi::CU_MEMHOSTREGISTER_DEVICEMAP,
        )
    };
    registered.map_err(|error| {
        let detail = format!("{} bytes at {:p}", memory.len_bytes(), memory.address());
        DriverError::with_detail(error.call(), error.code(), detail)
    })
}

/// # Safety
/// As [`Memory::unregister_host`](cuda_rt_driver::Memory::unregister_host).
pub(super) unsafe fn unregister_host(context: &Context, memory: &HostMemory) -> DriverResult<()> {
    let entered = context.enter()?;
    // SAFETY: by this function's contract the memory is registered, and no pending work uses it.
    unsafe { entered.library().cuMemHostUnregister(memory.address().as_ptr()) }
}

/// Write-combined host memory, page-locked for every context.
pub(super) fn alloc_write_combined(context: &Context, bytes: usize) -> DriverResult<NonNull<c_void>> {
    let entered = context.enter()?;
    let mut address = ptr::null_mut();
    let flags =
        ffi::CU_MEMHOSTALLOC_PORTABLE | ffi::CU_MEMHOSTALLOC_DEVICEMAP | ffi::CU_MEMHOSTALLOC_WRITECOMBINED;
    // SAFETY: the pointer is to a live address.
    let allocated = unsafe { entered.library().cuMemHostAlloc(&mut address, bytes, flags) };
    allocated.map_err(|error| {
        let detail = format!("{bytes} bytes of write-combined memory");
        DriverError::with_detail(error.call(), error.code(), detail)
    })?;
    NonNull::new(address).ok_or_else(|| DriverError::new("cuMemHostAlloc", ErrorCode::UNKNOWN))
}

/// # Safety
/// As [`Memory::free_write_combined`](cuda_rt_driver::Memory::free_write_combined).
pub(super) unsafe fn free_write_combined(context: &Context, address: NonNull<c_void>) -> DriverResult<()> {
    let entered = context.enter()?;
    // SAFETY: by this function's contract the address came from `cuMemHostAlloc`, and every use is
    // over.
    unsafe { entered.library().cuMemFreeHost(address.as_ptr()) }
}

/// The address by which the context's device reaches page-locked memory.
pub(super) fn mapped_address(context: &Context, address: NonNull<c_void>) -> DriverResult<DeviceAddress> {
    let entered = context.enter()?;
    let mut on_device = 0;
    // SAFETY: the pointer is to a live address. CUDA looks `address` up among the page-locked
    // ranges, and reads nothing there.
    let found = unsafe {
        entered
            .library()
            .cuMemHostGetDevicePointer_v2(&mut on_device, address.as_ptr(), 0)
    };
    found.map_err(|error| {
        let detail = format!("no page-locked memory that is mapped at {address:p}");
        DriverError::with_detail(error.call(), error.code(), detail)
    })?;
    Ok(DeviceAddress(on_device))
}

/// Enqueues a copy of `bytes` bytes by the call of this name. Without bytes it makes no call: an
/// empty buffer's address is dangling, and CUDA must not see it.
#[inline]
fn enqueue_copy(
    context: &Context,
    bytes: usize,
    name: &'static str,
    call: impl Fn(Permitted<'_>) -> DriverResult<()>,
) -> DriverResult<()> {
    if bytes == 0 {
        return Ok(());
    }
    context.enqueue(name, call)
}

/// # Safety
/// As [`Copies::copy_to_device`](cuda_rt_driver::Copies::copy_to_device).
#[inline]
pub(super) unsafe fn copy_to_device(
    context: &Context,
    destination: DeviceAddress,
    source: NonNull<c_void>,
    bytes: usize,
    stream: RawStream,
) -> DriverResult<()> {
    let stream = stream::handle(stream);
    enqueue_copy(context, bytes, "cuMemcpyHtoDAsync", |library| {
        // SAFETY: the ranges are live and in bounds, and the stream is live.
        unsafe { library.cuMemcpyHtoDAsync_v2(destination.0, source.as_ptr(), bytes, stream) }
    })
}

/// # Safety
/// As [`Copies::copy_to_host`](cuda_rt_driver::Copies::copy_to_host).
#[inline]
pub(super) unsafe fn copy_to_host(
    context: &Context,
    destination: NonNull<c_void>,
    source: DeviceAddress,
    bytes: usize,
    stream: RawStream,
) -> DriverResult<()> {
    let stream = stream::handle(stream);
    enqueue_copy(context, bytes, "cuMemcpyDtoHAsync", |library| {
        // SAFETY: the ranges are live and in bounds, and the stream is live.
        unsafe { library.cuMemcpyDtoHAsync_v2(destination.as_ptr(), source.0, bytes, stream) }
    })
}

/// # Safety
/// As [`Copies::copy`](cuda_rt_driver::Copies::copy).
#[inline]
pub(super) unsafe fn copy(
    context: &Context,
    destination: DeviceAddress,
    source: DeviceAddress,
    bytes: usize,
    stream: RawStream,
) -> DriverResult<()> {
    let stream = stream::handle(stream);
    enqueue_copy(context, bytes, "cuMemcpyDtoDAsync", |library| {
        // SAFETY: the ranges are live and in bounds, and the stream is live.
        unsafe { library.cuMemcpyDtoDAsync_v2(destination.0, source.0, bytes, stream) }
    })
}
