//! The CUDA driver API through the crate `cust` 0.3.2, for programs that have cust's objects.
//!
//! It drives the same primary context as [`cuda`](crate), and its handles are the same numbers. The
//! list shows which operations use cust's objects, and which do not:
//!
//! - **context**: `Context`, taken over by value
//! - **streams**: `Stream`: recorded on, launched on, destroyed. Reason: created by `cuda`: cust
//!   drops the flag `NON_BLOCKING`.
//! - **events**: `Event`: created, recorded, timed, destroyed. Reason: a stream's wait is `cuda`'s:
//!   cust's destroys the event.
//! - **waits of the host, queries**: `cuda`. Reason: a wait for a stream that is being captured is
//!   refused with a code that cust does not know, and `CUDA_ERROR_UNKNOWN` would say that the
//!   device is lost.
//! - **modules, kernels**: `Module`, `Function`, `Stream::launch`. Reason: what the compiler says
//!   about bad PTX is `cuda`'s to report.
//! - **copies on the device, fills**: `DeviceSlice`. Reason: patterns of other than 1, 2 or 4 bytes
//!   are `cuda`'s.
//! - **copies to and from the host**: `cuda`. Reason: cust's take a `&[T]`, which may not exist
//!   while the GPU writes the memory.
//! - **host functions**: `cuda`. Reason: cust's let a closure borrow what ends before it runs.
//! - **memory, pinned memory, captures, graphs, peers, ranks**: `cuda`. Reason: cust has no pools,
//!   registers no memory, captures nothing.
//!
//! Unlike `cuda`, it takes a lock for each launch, and an error unknown to cust becomes
//! `CUDA_ERROR_UNKNOWN`. cust reads a status as a Rust enum of CUDA 11's codes. If a newer driver
//! returns a newer code to one of cust's calls, the enum has an invalid value, which is undefined
//! behaviour. This driver inherits the problem from cust.

mod error;
#[doc(hidden)]
pub mod handles;
mod modules;

use std::ffi::{CStr, c_void};
use std::mem::{self, ManuallyDrop};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use cust::context::{Context, CurrentContext};
use cust::device::Device;
use cust::event::{Event, EventFlags};
use cust::memory::{AsyncCopyDestination, DevicePointer, DeviceSlice};
use cust::stream::Stream;

use crate::CudaDriver;
use crate::library::Permitted;
use cuda_rt_driver::{
    Advice, Communicator, CopyExtent, DeviceAddress, DriverError, DriverResult, ErrorCode, ForeignUse,
    HostFunction, HostMemory, Location, MemoryInfo, MemoryPoolStats, PeerAccess, Pitch, Properties, RawEvent,
    RawGraph, RawNode, RawPeer, RawStream,
};
use cuda_rt_driver::{Copies, Driver, Events, Graphs, Kernels, Managed, Memory, Peers, Streams};
use cuda_rt_driver::{
    FunctionLaunch, Kernel, KernelAttributes, LaunchShape, RawFunction, RawModule, SuggestedBlock,
};
use cuda_rt_driver::{Hint, Race, Simulated, Tools, Trace};
use error::{check, error};
use modules::Modules;

/// A GPU, through objects of the crate `cust`.
#[derive(Debug)]
pub struct CustDriver {
    cuda: Arc<CudaDriver>,
    modules: Modules,
    /// Keeps the context alive: objects made in it are used through it.
    _context: Context,
}

impl CustDriver {
    /// A driver over `context`. cust's `Context` is always the primary context of its device.
    ///
    /// # Errors
    /// The errors of [`CudaDriver::open`].
    pub fn over(context: Context) -> DriverResult<Arc<Self>> {
        let ordinal = ordinal(&context)?;
        let cuda = CudaDriver::open(ordinal)?;
        if cuda.context_handle() != context.as_raw().addr() {
            let detail =
                format!("the primary context of device {ordinal} has changed: was the device reset?");
            return Err(DriverError::with_detail(
                "cuDevicePrimaryCtxRetain",
                ErrorCode::CONTEXT_IS_DESTROYED,
                detail,
            ));
        }
        Ok(Arc::new(Self {
            modules: Modules::new(),
            cuda,
            _context: context,
        }))
    }
}

/// The ordinal of a context's device.
pub fn ordinal(context: &Context) -> DriverResult<usize> {
    check("cuCtxSetCurrent", CurrentContext::set_current(context))?;
    let device = check("cuCtxGetDevice", CurrentContext::get_device())?;
    let count = check("cuDeviceGetCount", Device::num_devices())?;
    for ordinal in 0..count {
        if check("cuDeviceGet", Device::get_device(ordinal))?.as_raw() == device.as_raw() {
            return Ok(ordinal as usize);
        }
    }
    Err(DriverError::new("cuDeviceGet", ErrorCode::INVALID_DEVICE))
}

/// # Safety
/// The handle is live while the result is used.
#[inline]
unsafe fn stream(raw: RawStream) -> ManuallyDrop<Stream> {
    // SAFETY: the same contract.
    unsafe { handles::stream(ptr::with_exposed_provenance_mut(raw.0 as usize)) }
}

/// # Safety
/// The handle is live while the result is used.
#[inline]
unsafe fn event(raw: RawEvent) -> ManuallyDrop<Event> {
    // SAFETY: the same contract.
    unsafe { handles::event(ptr::with_exposed_provenance_mut(raw.0 as usize)) }
}

/// # Safety
/// `count` elements of device memory at `address` are live and in bounds.
unsafe fn slice<T: cust::memory::DeviceCopy>(address: DeviceAddress, count: usize) -> DeviceSlice<T> {
    // SAFETY: the same contract.
    unsafe { DeviceSlice::from_raw_parts_mut(DevicePointer::from_raw(address.0), count) }
}

impl Streams for CustDriver {
    cuda_rt_driver::stream_calls! { forward to |this: &CustDriver| -> &CudaDriver { &this.cuda };
        create_stream, synchronize_stream, query_stream, wait_event, launch_host_function, lose, foreign,
    }

    unsafe fn destroy_stream(&self, raw: RawStream) -> DriverResult<()> {
        let _entered = self.cuda.report(self.cuda.context().enter())?;
        // SAFETY: by this function's contract the handle is live and is not used again.
        let stream = unsafe { stream(raw) };
        let destroyed = Stream::drop(ManuallyDrop::into_inner(stream));
        self.cuda.report(destroyed.map_err(|(code, stream)| {
            // Without this, the drop would destroy the stream again.
            mem::forget(stream);
            error("cuStreamDestroy_v2", code)
        }))
    }
}

impl Events for CustDriver {
    cuda_rt_driver::event_calls! { forward to |this: &CustDriver| -> &CudaDriver { &this.cuda };
        query_event, synchronize_event,
    }

    fn create_event(&self, timing: bool) -> DriverResult<RawEvent> {
        let _entered = self.cuda.report(self.cuda.context().enter())?;
        let flags = if timing {
            EventFlags::DEFAULT
        } else {
            EventFlags::DISABLE_TIMING
        };
        let event = self.cuda.report(check("cuEventCreate", Event::new(flags)))?;
        let raw = handles::into_raw_event(event);
        Ok(RawEvent(raw.expose_provenance() as u64))
    }

    unsafe fn destroy_event(&self, raw: RawEvent) -> DriverResult<()> {
        let _entered = self.cuda.report(self.cuda.context().enter())?;
        // SAFETY: by this function's contract the handle is live and is not used again.
        let event = unsafe { event(raw) };
        let destroyed = Event::drop(ManuallyDrop::into_inner(event));
        self.cuda.report(destroyed.map_err(|(code, event)| {
            // Without this, the drop would destroy the event again.
            mem::forget(event);
            error("cuEventDestroy_v2", code)
        }))
    }

    unsafe fn record_event(&self, raw: RawEvent, on: RawStream) -> DriverResult<()> {
        // SAFETY: the handle is live.
        let event = unsafe { event(raw) };
        // SAFETY: the handle is live.
        let stream = unsafe { stream(on) };
        let record = |_: Permitted<'_>| check("cuEventRecord", event.record(&stream));
        self.cuda
            .report(self.cuda.context().enqueue("cuEventRecord", record))
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
        let _entered = self.cuda.report(self.cuda.context().enter())?;
        // SAFETY: the handle is live.
        let start = unsafe { event(start) };
        // SAFETY: the handle is live.
        let end = unsafe { event(end) };
        let elapsed = end.elapsed_time_f32(&start);
        self.cuda.report(check("cuEventElapsedTime", elapsed))
    }
}

impl Memory for CustDriver {
    cuda_rt_driver::memory_calls! { forward to |this: &CustDriver| -> &CudaDriver { &this.cuda };
        alloc, free, note_free, note_alloc, pool_stats, reset_pool_peaks, set_release_threshold,
        trim_pool, register_host, unregister_host, alloc_write_combined, free_write_combined,
        mapped_address,
    }

    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        let _entered = self.cuda.report(self.cuda.context().enter())?;
        let (free, total) = self
            .cuda
            .report(check("cuMemGetInfo_v2", cust::memory::mem_get_info()))?;
        Ok(MemoryInfo {
            free_bytes: free as u64,
            total_bytes: total as u64,
        })
    }
}

impl Managed for CustDriver {
    cuda_rt_driver::managed_calls! { forward to |this: &CustDriver| -> &CudaDriver { &this.cuda };
        alloc_managed, free_managed, prefetch, advise, while_mapped,
    }
}

impl Copies for CustDriver {
    cuda_rt_driver::copy_calls! { forward to |this: &CustDriver| -> &CudaDriver { &this.cuda };
        copy_to_device, copy_to_host, copy_rows_to_device, copy_rows_to_host, copy_rows,
    }

    unsafe fn copy(
        &self,
        destination: DeviceAddress,
        source: DeviceAddress,
        bytes: usize,
        on: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: by this function's contract the range is live and in bounds.
        let destination = unsafe { slice::<u8>(destination, bytes) };
        // SAFETY: by this function's contract the range is live and in bounds.
        let source = unsafe { slice::<u8>(source, bytes) };
        // SAFETY: the handle is live.
        let stream = unsafe { stream(on) };
        let copy = |_: Permitted<'_>| {
            let mut destination = destination;
            // SAFETY: by this function's contract no access conflicts until the copy is done. cust
            // calls nothing for 0 bytes.
            let copied = unsafe { source.async_copy_to(&mut destination, &stream) };
            check("cuMemcpyDtoDAsync_v2", copied)
        };
        self.cuda
            .report(self.cuda.context().enqueue("cuMemcpyDtoDAsync", copy))
    }

    unsafe fn fill(
        &self,
        destination: DeviceAddress,
        pattern: &[u8],
        count: usize,
        on: RawStream,
    ) -> DriverResult<()> {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the handle is live.
        let stream = unsafe { stream(on) };
        let context = self.cuda.context();
        let filled = match *pattern {
            [byte] => {
                // SAFETY: by this function's contract the range is live and in bounds.
                let range = unsafe { slice::<u8>(destination, count) };
                context.enqueue("cuMemsetD8Async", |_| {
                    let mut range = range;
                    // SAFETY: by this function's contract no access conflicts until the fill is
                    // done.
                    let filled = unsafe { range.set_8_async(byte, &stream) };
                    check("cuMemsetD8Async", filled)
                })
            }
            [a, b] if destination.0.is_multiple_of(2) => {
                // SAFETY: by this function's contract the range is live and in bounds.
                let range = unsafe { slice::<u16>(destination, count) };
                let value = u16::from_ne_bytes([a, b]);
                context.enqueue("cuMemsetD16Async", |_| {
                    let mut range = range;
                    // SAFETY: by this function's contract no access conflicts until the fill is
                    // done; the destination is aligned to 2.
                    let filled = unsafe { range.set_16_async(value, &stream) };
                    check("cuMemsetD16Async", filled)
                })
            }
            [a, b, c, d] if destination.0.is_multiple_of(4) => {
                // SAFETY: by this function's contract the range is live and in bounds.
                let range = unsafe { slice::<u32>(destination, count) };
                let value = u32::from_ne_bytes([a, b, c, d]);
                context.enqueue("cuMemsetD32Async", |_| {
                    let mut range = range;
                    // SAFETY: by this function's contract no access conflicts until the fill is
                    // done; the destination is aligned to 4.
                    let filled = unsafe { range.set_32_async(value, &stream) };
                    check("cuMemsetD32Async", filled)
                })
            }
            // The `cuda` driver fills in smaller units, or in columns.
            // SAFETY: the same contract.
            _ => return unsafe { self.cuda.fill(destination, pattern, count, on) },
        };
        self.cuda.report(filled)
    }
}

impl Peers for CustDriver {
    cuda_rt_driver::peer_calls! { forward to |this: &CustDriver| -> &CudaDriver { &this.cuda };
        peer, peer_access, copy_peer, communicator,
    }
}

impl Kernels for CustDriver {
    // cust has none of these calls. The kernel's module is loaded for `cuda` too.
    cuda_rt_driver::kernel_calls! { forward to |this: &CustDriver| -> &CudaDriver { &this.cuda };
        kernel_attributes, max_active_blocks, suggest_block, load_module, unload_module,
        module_function, launch_function,
    }

    fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()> {
        self.modules.with_function(&self.cuda, kernel, |_| Ok(()))
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        on: RawStream,
    ) -> DriverResult<()> {
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (shape.grid, shape.block);
        // SAFETY: the handle is live.
        let stream = unsafe { stream(on) };
        let parameters: Vec<*mut c_void> = parameters.iter().map(|value| value.cast_mut()).collect();
        self.modules.with_function(&self.cuda, kernel, |function| {
            if kernel.layout.is_empty() {
                self.cuda
                    .permit_shared(kernel, function.to_raw().cast(), shape.shared_bytes)?;
            }
            let launch = |_: Permitted<'_>| {
                // SAFETY: by the contract of `launch` the parameters are as the kernel's entry
                // takes them. CUDA copies the values, and writes neither to them nor to the list.
                let launched = unsafe {
                    stream.launch(
                        function,
                        (grid_x, grid_y, grid_z),
                        (block_x, block_y, block_z),
                        shape.shared_bytes,
                        &parameters,
                    )
                };
                check("cuLaunchKernel", launched)
            };
            let launched = self.cuda.context().enqueue("cuLaunchKernel", launch);
            self.cuda
                .report(launched.map_err(|error| error::explain_launch(error, kernel, shape)))
        })?;
        self.cuda.remember(kernel);
        Ok(())
    }

    cuda_rt_driver::kernel_calls! { |this: &CustDriver|
        launch_padded(kernel, shape, parameters, stream) => {
            // SAFETY: the same contract; `launch` reads no byte of the values.
            unsafe { this.launch(kernel, shape, parameters, stream) }
        };
    }
}

impl Graphs for CustDriver {
    cuda_rt_driver::graph_calls! { forward to |this: &CustDriver| -> &CudaDriver { &this.cuda };
        begin_capture, end_capture, captured_node, update_graph, set_launch, launch_graph,
        destroy_graph,
    }
}

// SAFETY: streams, events and memory are made by `CudaDriver`, which keeps the contract. Each
// method of cust used here makes one call of the driver API, and returns `Ok` only for
// CUDA_SUCCESS.
unsafe impl Driver for CustDriver {
    fn properties(&self) -> &Properties {
        self.cuda.properties()
    }
}

// SAFETY: streams and traces are made by `cuda`, whose traces are of its own device.
unsafe impl Tools for CustDriver {
    fn simulator(&self) -> Option<&dyn Simulated> {
        self.cuda.simulator()
    }

    fn is_checked(&self) -> bool {
        self.cuda.is_checked()
    }

    fn races(&self) -> Vec<Race> {
        self.cuda.races()
    }

    fn hint(&self, note: Hint<'_>) {
        self.cuda.hint(note);
    }

    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        self.cuda.begin_trace()
    }
}
