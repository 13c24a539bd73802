//! The CUDA driver API, loaded at run time.
//!
//! Design choices:
//! - There is one [`CudaDriver`] for each device and process, over the device's *primary* context,
//!   which other CUDA code in the process uses too. The context is retained once. Nothing here
//!   resets or destroys a context.
//! - The current context is a property of the thread, and any code may change it; it is never
//!   assumed (`context`).
//! - Memory comes from a pool of our own (`memory`).
//! - Calls that only enqueue go straight to CUDA. All other calls run in relaxed capture mode, so
//!   that they neither break nor join a capture of other code.
//! - Only entry points of CUDA 11.4 and earlier are used. All are looked up before the first call
//!   (`library`).
//! - Crates for cuBLAS and other libraries of NVIDIA's load them here ([`NvidiaLibrary`]), so that
//!   their calls pass the same gate as calls of the driver (`process_end`, `loader`).
//!
//! Callers validate; see [the driver interface](cuda_rt_driver). Raw driver calls are made only in
//! this folder.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(clippy::disallowed_methods, reason = "this folder is where they are allowed")]

#[cfg(feature = "nccl")]
mod collective;
mod context;
#[cfg(feature = "cupti")]
mod cupti;
#[cfg(feature = "cust")]
pub mod cust;
mod error;
mod event;
mod ffi;
mod fill;
mod foreign_module;
mod function_table;
mod graph;
mod host_function;
mod kernels;
mod large_stack;
mod launch;
mod library;
mod loader;
mod managed;
mod membarrier;
mod memory;
mod module;
mod named_file;
mod nvidia_library;
mod occupancy;
mod peer;
mod process_end;
mod properties;
mod rows;
mod stream;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "nccl")]
pub use collective::nccl_version;
pub(crate) use context::Context;
pub use context::ContextCheck;
#[cfg(not(feature = "nccl"))]
use cuda_rt_driver::ErrorCode;
use cuda_rt_driver::{
    Communicator, CopyExtent, DeviceAddress, DriverError, DriverResult, ForeignUse, HostFunction, HostMemory,
    MemoryInfo, MemoryPoolStats, PeerAccess, Pitch, Properties, RawEvent, RawGraph, RawNode, RawPeer,
    RawStream,
};
use cuda_rt_driver::{Copies, Driver, Events, Graphs, Memory, Peers, Streams};
use cuda_rt_driver::{Hint, Race, Simulated, Tools, Trace};
use cuda_rt_driver::{Kernel, LaunchShape};
#[cfg(feature = "cupti")]
pub use cupti::why_none as why_no_cupti;
pub use large_stack::on_large_stack;
use memory::Pool;
use module::Modules;
#[cfg(feature = "cust")]
pub(crate) use module::{compare_layouts, compare_parameters, ptx_for};
pub use nvidia_library::NvidiaLibrary;
use peer::ReachedPeers;
use rows::Side;

/// A GPU, through the CUDA driver API.
#[derive(Debug)]
pub struct CudaDriver {
    properties: Properties,
    context: Context,
    pool: Pool,
    modules: Modules,
    peers: ReachedPeers,
    /// The kernel launched last. The error of a kernel that trapped names it.
    last_kernel: AtomicPtr<Kernel>,
}

/// The opened drivers, by ordinal; kept until the process ends.
static OPEN: Mutex<BTreeMap<usize, Arc<CudaDriver>>> = Mutex::new(BTreeMap::new());

impl CudaDriver {
    /// Number of GPUs that this process may use (`cuDeviceGetCount`).
    ///
    /// # Errors
    /// There is no driver, it is too old, or it sees no GPU.
    pub fn count() -> DriverResult<usize> {
        library::device_count()
    }

    /// The driver of the GPU with this ordinal. Returns the same instance each time; it is kept
    /// until the process ends.
    ///
    /// The first call for an ordinal creates the device's primary context if nobody did
    /// (`cuDevicePrimaryCtxRetain`), which takes some hundred milliseconds, and a memory pool
    /// (`cuMemPoolCreate`).
    ///
    /// # Errors
    /// As [`count`](Self::count); there is no such device, or it has no memory pools.
    pub fn open(ordinal: usize) -> DriverResult<Arc<Self>> {
        cuda_rt_driver::host_function::check("cuDevicePrimaryCtxRetain")?;
        // Here, because a device that is open costs no call.
        loader::check("cuDevicePrimaryCtxRetain")?;
        // Held while a device is opened, so that no device gets two instances.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = open.get(&ordinal) {
            return Ok(Arc::clone(driver));
        }
        let driver = Arc::new(Self::create(ordinal)?);
        open.insert(ordinal, Arc::clone(&driver));
        Ok(driver)
    }

    /// The driver of this ordinal, if it is open.
    fn opened(ordinal: u64) -> Option<Arc<Self>> {
        let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&usize::try_from(ordinal).ok()?).cloned()
    }

    fn create(ordinal: usize) -> DriverResult<Self> {
        let context = Context::retain(library::library()?, ordinal)?;
        let properties = properties::read(&context)?;
        Ok(Self {
            pool: Pool::create(&context)?,
            peers: ReachedPeers::new(library::device_count()?),
            context,
            modules: Modules::new(&properties),
            properties,
            last_kernel: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// Chooses when calls on streams and events check the current context; for benchmarks and
    /// tests.
    #[doc(hidden)]
    pub fn set_context_check(&self, check: ContextCheck) {
        self.context.set_check(check);
    }

    /// The context, for the driver built on cust's objects.
    #[cfg(feature = "cust")]
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// The context's handle (`CUcontext`).
    #[cfg(feature = "cust")]
    pub fn context_handle(&self) -> usize {
        self.context.handle().addr()
    }

    /// Uses a module (`CUmodule`) loaded by other code for the kernels of `image`. Returns `false`
    /// if the image already has a module.
    ///
    /// # Safety
    /// The module is of this device's primary context, is never unloaded, and holds the kernels
    /// that refer to `image`.
    #[cfg(feature = "cust")]
    pub unsafe fn adopt_module(
        &self,
        image: &'static cuda_rt_driver::ModuleImage,
        module: *mut c_void,
    ) -> bool {
        // SAFETY: this function's contract is the contract of `adopt`.
        unsafe { self.modules.adopt(image, module.cast()) }
    }

    /// The module that was adopted for `image`.
    #[cfg(feature = "cust")]
    pub(crate) fn adopted_module(&self, image: &'static cuda_rt_driver::ModuleImage) -> Option<*mut c_void> {
        self.modules.adopted(image).map(<*mut _>::cast)
    }

    /// Lets the launches of a function of cust's pass the shared memory that they need.
    #[cfg(feature = "cust")]
    pub(crate) fn permit_shared(
        &self,
        kernel: &'static Kernel,
        function: *mut c_void,
        bytes: u32,
    ) -> DriverResult<()> {
        self.modules
            .permit_shared(&self.context, kernel, function.cast(), bytes)
    }

    /// Returns `result`; to an error that a kernel left, adds which kernel was launched last.
    #[inline]
    pub(crate) fn report<T>(&self, result: DriverResult<T>) -> DriverResult<T> {
        result.map_err(|error| self.name_last_kernel(error))
    }

    #[cold]
    fn name_last_kernel(&self, error: DriverError) -> DriverError {
        let last: *const Kernel = self.last_kernel.load(Ordering::Acquire);
        if !error.is_sticky() || !error.detail().is_empty() || last.is_null() {
            return error;
        }
        // SAFETY: the pointer is not null, so `remember` stored it from a `&'static Kernel`. What
        // was written to the kernel before is seen here: `Release` there, `Acquire` here.
        let last = unsafe { &*last };
        let detail = format!(
            "a kernel before this call failed; the last launched on the device was `{}` ({}:{})",
            last.name, last.file, last.line
        );
        error::with_detail(error, detail)
    }

    #[inline]
    pub(crate) fn remember(&self, kernel: &'static Kernel) {
        let kernel = ptr::from_ref(kernel).cast_mut();
        // Written only when it changes, so that threads that launch one kernel don't contend for
        // the cache line.
        if self.last_kernel.load(Ordering::Relaxed) != kernel {
            self.last_kernel.store(kernel, Ordering::Release);
        }
    }
}

impl Streams for CudaDriver {
    fn create_stream(&self, priority: i32) -> DriverResult<RawStream> {
        let range = self.properties.priority_range;
        self.report(stream::create(&self.context, priority, range))
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { stream::destroy(&self.context, stream) })
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { stream::synchronize(&self.context, stream) })
    }

    unsafe fn query_stream(&self, stream: RawStream) -> DriverResult<bool> {
        // SAFETY: the same contract.
        self.report(unsafe { stream::query(&self.context, stream) })
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { event::wait(&self.context, stream, event) })
    }

    unsafe fn launch_host_function(
        &self,
        stream: RawStream,
        function: HostFunction,
        _uses: &[ForeignUse],
    ) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { host_function::launch(&self.context, stream, function) })
    }

    cuda_rt_driver::stream_calls! { |this: &CudaDriver|
        lose(why) => {
            this.context.lose(why);
            Ok(())
        };

        foreign(_name, _stream, _uses, body) => {
            let _lent = this.report(this.context.lend())?;
            body();
            Ok(())
        };
    }
}

impl Events for CudaDriver {
    fn create_event(&self, timing: bool) -> DriverResult<RawEvent> {
        self.report(event::create(&self.context, timing))
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { event::destroy(&self.context, event) })
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { event::record(&self.context, event, stream) })
    }

    unsafe fn query_event(&self, event: RawEvent) -> DriverResult<bool> {
        // SAFETY: the same contract.
        self.report(unsafe { event::query(&self.context, event) })
    }

    unsafe fn synchronize_event(&self, event: RawEvent) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { event::synchronize(&self.context, event) })
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
        // SAFETY: the same contract.
        self.report(unsafe { event::elapsed_ms(&self.context, start, end) })
    }
}

impl Memory for CudaDriver {
    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        self.report(memory::info(&self.context))
    }

    unsafe fn alloc(&self, bytes: usize, stream: RawStream) -> DriverResult<DeviceAddress> {
        // SAFETY: the same contract.
        self.report(unsafe { self.pool.alloc(&self.context, bytes, stream) })
    }

    unsafe fn free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { memory::free(&self.context, address, stream) })
    }

    // CUDA is told nothing: to CUDA the memory stays allocated.
    #[inline]
    unsafe fn note_free(&self, _address: DeviceAddress, _stream: RawStream) -> DriverResult<()> {
        match self.context.check_lost() {
            Ok(()) => Ok(()),
            lost => self.report(lost),
        }
    }

    #[inline]
    unsafe fn note_alloc(&self, _address: DeviceAddress, _stream: RawStream) -> DriverResult<()> {
        match self.context.check_lost() {
            Ok(()) => Ok(()),
            lost => self.report(lost),
        }
    }

    fn pool_stats(&self) -> DriverResult<MemoryPoolStats> {
        self.report(self.pool.stats(&self.context))
    }

    fn reset_pool_peaks(&self) -> DriverResult<()> {
        self.report(self.pool.reset_peaks(&self.context))
    }

    fn set_release_threshold(&self, bytes: u64) -> DriverResult<()> {
        self.report(self.pool.set_release_threshold(&self.context, bytes))
    }

    fn trim_pool(&self, keep_bytes: u64) -> DriverResult<()> {
        self.report(self.pool.trim(&self.context, keep_bytes))
    }

    unsafe fn register_host(&self, memory: &HostMemory) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { memory::register_host(&self.context, memory) })
    }

    unsafe fn unregister_host(&self, memory: &HostMemory) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { memory::unregister_host(&self.context, memory) })
    }

    fn alloc_write_combined(&self, bytes: usize) -> DriverResult<NonNull<c_void>> {
        self.report(memory::alloc_write_combined(&self.context, bytes))
    }

    unsafe fn free_write_combined(&self, address: NonNull<c_void>) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { memory::free_write_combined(&self.context, address) })
    }

    fn mapped_address(&self, address: NonNull<c_void>) -> DriverResult<DeviceAddress> {
        self.report(memory::mapped_address(&self.context, address))
    }
}

impl Copies for CudaDriver {
    cuda_rt_driver::copy_calls! { |this: &CudaDriver|
        copy_to_device(destination, source, bytes, stream) => {
            // SAFETY: the same contract.
            this.report(unsafe { memory::copy_to_device(&this.context, destination, source, bytes, stream) })
        };

        copy_to_host(destination, source, bytes, stream) => {
            // SAFETY: the same contract.
            this.report(unsafe { memory::copy_to_host(&this.context, destination, source, bytes, stream) })
        };

        copy(destination, source, bytes, stream) => {
            // SAFETY: the same contract.
            this.report(unsafe { memory::copy(&this.context, destination, source, bytes, stream) })
        };

        copy_rows_to_device(destination, source, extent, stream) => {
            let (to, from) = (Side::device(destination), Side::host(source));
            // SAFETY: the same contract.
            this.report(unsafe { rows::copy(&this.context, to, from, extent, stream) })
        };

        copy_rows_to_host(destination, source, extent, stream) => {
            let (to, from) = (Side::host(destination), Side::device(source));
            // SAFETY: the same contract.
            this.report(unsafe { rows::copy(&this.context, to, from, extent, stream) })
        };

        copy_rows(destination, source, extent, stream) => {
            let (to, from) = (Side::device(destination), Side::device(source));
            // SAFETY: the same contract.
            this.report(unsafe { rows::copy(&this.context, to, from, extent, stream) })
        };

        fill(destination, pattern, count, stream) => {
            // SAFETY: the same contract.
            this.report(unsafe { fill::fill(&this.context, destination, pattern, count, stream) })
        };
    }
}

impl Peers for CudaDriver {
    fn peer(&self) -> RawPeer {
        RawPeer(self.context.ordinal() as u64)
    }

    fn peer_access(&self, peer: RawPeer) -> DriverResult<PeerAccess> {
        self.report(self.reach(peer).map(|reached| reached.access))
    }

    #[cfg(feature = "nccl")]
    fn communicator(&self, ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>> {
        self.report(collective::NcclCommunicator::new(ranks).map(|made| Box::new(made) as _))
    }

    #[cfg(not(feature = "nccl"))]
    fn communicator(&self, _ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>> {
        Err(DriverError::with_detail(
            "ncclCommInitAll",
            ErrorCode::NOT_SUPPORTED,
            "cuda-rt was built without its feature `nccl`",
        ))
    }

    cuda_rt_driver::peer_calls! { |this: &CudaDriver|
        copy_peer(destination, source, bytes, stream) => {
            // SAFETY: the same contract.
            this.report(unsafe { this.copy_between(destination, source, bytes, stream) })
        };
    }
}

impl Graphs for CudaDriver {
    unsafe fn begin_capture(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { graph::begin(&self.context, stream) })
    }

    unsafe fn end_capture(&self, stream: RawStream) -> DriverResult<RawGraph> {
        // SAFETY: the same contract.
        self.report(unsafe { graph::end(&self.context, stream) })
    }

    unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode> {
        // SAFETY: the same contract.
        self.report(unsafe { graph::captured_node(&self.context, stream) })
    }

    unsafe fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { graph::update(&self.context, graph, stream) })
    }

    unsafe fn launch_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { graph::launch(&self.context, graph, stream) })
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.report(unsafe { graph::destroy(&self.context, graph) })
    }

    cuda_rt_driver::graph_calls! { |this: &CudaDriver|
        set_launch(graph, node, kernel, shape, parameters) => {
            let function = this.report(this.modules.function(&this.context, kernel))?;
            let permitted = this
                .modules
                .permit_launch(&this.context, kernel, function, shape);
            this.report(permitted)?;
            // SAFETY: the same contract; the function is the kernel's own.
            let set =
                unsafe { graph::set_launch(&this.context, graph, node, function, shape, parameters) };
            this.report(set)
        };
    }
}

// SAFETY: CUDA itself orders non-blocking streams and events as the trait demands. Memory comes
// from a pool that only this driver uses. The pool hands out an address again after its free in the
// same stream, or once the free was done. Waits return `Ok` only for CUDA_SUCCESS.
unsafe impl Driver for CudaDriver {
    fn properties(&self) -> &Properties {
        &self.properties
    }
}

// SAFETY: the trace is of this driver's context, and the driver makes its streams in that context.
unsafe impl Tools for CudaDriver {
    fn simulator(&self) -> Option<&dyn Simulated> {
        None
    }

    fn is_checked(&self) -> bool {
        false
    }

    fn races(&self) -> Vec<Race> {
        Vec::new()
    }

    fn hint(&self, _note: Hint<'_>) {}

    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        #[cfg(feature = "cupti")]
        let begun = Some(Box::new(cupti::CuptiTrace::begin(&self.context)?) as _);
        #[cfg(not(feature = "cupti"))]
        let begun = None;
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_gpu_the_error_says_why_and_nothing_panics() {
        match CudaDriver::count() {
            Ok(count) => assert!(CudaDriver::open(count).is_err(), "ordinals end at {count}"),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert_eq!(CudaDriver::open(0).unwrap_err().code(), error.code());
            }
        }
    }
}
