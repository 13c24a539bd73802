//! Managed memory.
//!
//! It is given out only where the host may use it while kernels run. Elsewhere the host would have
//! to wait for *all* work of the device before it touches *any* managed memory, and ownership of
//! one buffer could not say so. Memory that is attached globally is reachable from every device of
//! the process, so every device must permit that.
//!
//! The exit handlers of the library may unmap managed memory, and write-combined memory, which
//! `cuMemHostAlloc` maps (`memory.rs`). So the host touches both only inside
//! [`while_mapped`](cuda_rt_driver::Managed::while_mapped), for which the end of the process waits
//! as for a call ([`process_end`]).

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Once;

use super::context::Context;
use super::ffi::{self, CUdevice_attribute, CUmem_advise};
use super::process_end;
use super::{CudaDriver, stream};
use cuda_rt_driver::{Advice, DriverError, DriverResult, ErrorCode, Location, Managed, RawStream};

impl Managed for CudaDriver {
    fn alloc_managed(&self, bytes: usize) -> DriverResult<NonNull<c_void>> {
        self.report(alloc(&self.context, bytes))
    }

    unsafe fn free_managed(&self, address: NonNull<c_void>) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { free(&self.context, address) })
    }

    unsafe fn prefetch(
        &self,
        address: NonNull<c_void>,
        bytes: usize,
        to: Location,
        stream: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { prefetch(&self.context, address, bytes, to, stream) })
    }

    unsafe fn advise(&self, address: NonNull<c_void>, bytes: usize, advice: Advice) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { advise(&self.context, address, bytes, advice) })
    }

    cuda_rt_driver::managed_calls! { |_this: &CudaDriver|
        while_mapped(body) => {
            let _inside = process_end::enter().map_err(|refusal| refusal.error("cuMemAllocManaged"))?;
            body();
            Ok(())
        };
    }
}

fn number(address: NonNull<c_void>) -> ffi::CUdeviceptr {
    address.as_ptr().expose_provenance() as ffi::CUdeviceptr
}

/// The device that a call names, with the context's own device as [`Location::Device`].
fn device(context: &Context, location: Location) -> ffi::CUdevice {
    match location {
        Location::Device => context.device(),
        Location::Host => ffi::CU_DEVICE_CPU,
    }
}

/// An error if a device of the process keeps the host from managed memory while its kernels run.
fn check_supported(context: &Context) -> DriverResult<()> {
    let library = context.library();
    let mut count = 0;
    // SAFETY: the pointer is to a live int.
    unsafe { library.cuDeviceGetCount(&mut count) }?;
    for ordinal in 0..count {
        let mut device = 0;
        // SAFETY: the pointer is to a live CUdevice, and the driver is initialised.
        unsafe { library.cuDeviceGet(&mut device, ordinal) }?;
        let mut concurrent = 0;
        let which = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        // SAFETY: the pointer is to a live int, and the device is valid.
        unsafe { library.cuDeviceGetAttribute(&mut concurrent, which, device) }?;
        if concurrent == 0 {
            let detail = format!(
                "device {ordinal} lets the host use no managed memory while its kernels run \
                 (CONCURRENT_MANAGED_ACCESS is 0); pinned memory serves there"
            );
            return Err(DriverError::with_detail(
                "cuMemAllocManaged",
                ErrorCode::NOT_SUPPORTED,
                detail,
            ));
        }
    }
    Ok(())
}

fn alloc(context: &Context, bytes: usize) -> DriverResult<NonNull<c_void>> {
    let _entered = context.enter()?;
    check_supported(context)?;
    let mut address = 0;
    // SAFETY: the pointer is to a live address.
    let allocated = unsafe {
        context
            .library()
            .cuMemAllocManaged(&mut address, bytes, ffi::CU_MEM_ATTACH_GLOBAL)
    };
    // The first managed memory may set up more of the driver.
    static FIRST: Once = Once::new();
    FIRST.call_once(process_end::shut_at_exit);
    allocated.map_err(|error| {
        let detail = format!("{bytes} bytes of managed memory");
        DriverError::with_detail(error.call(), error.code(), detail)
    })?;
    NonNull::new(ptr::with_exposed_provenance_mut(address as usize))
        .ok_or_else(|| DriverError::new("cuMemAllocManaged", ErrorCode::UNKNOWN))
}

/// # Safety
/// As [`Managed::free_managed`].
unsafe fn free(context: &Context, address: NonNull<c_void>) -> DriverResult<()> {
    let _entered = context.enter()?;
    // SAFETY: by this function's contract the address came from `alloc`, and every use is over.
    unsafe { context.library().cuMemFree_v2(number(address)) }
}

/// # Safety
/// As [`Managed::prefetch`].
unsafe fn prefetch(
    context: &Context,
    address: NonNull<c_void>,
    bytes: usize,
    to: Location,
    stream: RawStream,
) -> DriverResult<()> {
    let to = device(context, to);
    context.enqueue("cuMemPrefetchAsync", |library| {
        // SAFETY: by this function's contract the range is live managed memory, and the stream is
        // live.
        unsafe { library.cuMemPrefetchAsync(number(address), bytes, to, stream::handle(stream)) }
    })
}

/// # Safety
/// As [`Managed::advise`].
unsafe fn advise(
    context: &Context,
    address: NonNull<c_void>,
    bytes: usize,
    advice: Advice,
) -> DriverResult<()> {
    let (advice, location) = match advice {
        Advice::SetReadMostly => (CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY, Location::Device),
        Advice::UnsetReadMostly => (CUmem_advise::CU_MEM_ADVISE_UNSET_READ_MOSTLY, Location::Device),
        Advice::SetPreferredLocation(at) => (CUmem_advise::CU_MEM_ADVISE_SET_PREFERRED_LOCATION, at),
        // CUDA ignores the location here, and above.
        Advice::UnsetPreferredLocation => (
            CUmem_advise::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
            Location::Device,
        ),
        Advice::SetAccessedBy(by) => (CUmem_advise::CU_MEM_ADVISE_SET_ACCESSED_BY, by),
        Advice::UnsetAccessedBy(by) => (CUmem_advise::CU_MEM_ADVISE_UNSET_ACCESSED_BY, by),
        other => {
            let detail = format!("{other:?} is unknown to this driver");
            return Err(DriverError::with_detail(
                "cuMemAdvise",
                ErrorCode::NOT_SUPPORTED,
                detail,
            ));
        }
    };
    let _entered = context.enter()?;
    let at = device(context, location);
    // SAFETY: by this function's contract the range is live managed memory.
    unsafe { context.library().cuMemAdvise(number(address), bytes, advice, at) }
}
