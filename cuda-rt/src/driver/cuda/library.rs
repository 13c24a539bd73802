//! The driver library: found and loaded at run time, so that one binary starts with or without a GPU.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;

use super::error::{Status, check};
use crate::driver::{DriverError, DriverResult, ErrorCode};

/// The oldest driver that has all that is listed below, for messages.
const OLDEST_DRIVER: &str = "CUDA 11.4 (driver 470)";

/// Declares the entry points used, with their C signatures.
///
/// cudarc's own functions are not called, for two reasons: they panic where a driver lacks an entry point, and they
/// return a Rust enum, of which a driver newer than the bindings may return a value that is not one of its variants. Here all
/// are looked up at once, and a status is a number. The signatures are still cudarc's: the compiler compares them, but for those of a
/// CUDA that the bindings are newer than, which say `of "CUDA 11"`: drivers keep an entry point's signature for good.
macro_rules! entry_points {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(of $old:literal)?;)*) => {
        /// Every driver function that this backend calls.
        #[expect(non_snake_case, reason = "the names are CUDA's")]
        pub(super) struct Library { $(
            /// The function itself, for calls whose status is not simply success or failure.
            pub(super) $name: unsafe extern "C" fn($($type),*) -> Status,
        )* }

        $(compare! { [$($old)?] $name($($type),*) })*

        impl Library {
            fn find() -> DriverResult<Self> {
                // SAFETY: loading the driver runs its initialisers, which set up its own state only.
                if !unsafe { sys::is_culib_present() } {
                    return Err(DriverError::with_detail(
                        "cuInit",
                        ErrorCode::NO_DEVICE,
                        "no CUDA driver library (libcuda.so.1, nvcuda.dll) was found: is NVIDIA's driver installed?",
                    ));
                }
                Ok(Self { $(
                    // SAFETY: the signature is the one in cudarc's bindings, checked above by the compiler, but for the
                    // returned enum, which has the representation of `Status`.
                    $name: unsafe { symbol(stringify!($name)) }?,
                )* })
            }

            $(
                /// # Safety
                /// As the driver API's documentation demands of the call of this name.
                #[inline]
                #[allow(
                    clippy::too_many_arguments,
                    dead_code,
                    non_snake_case,
                    reason = "names and arguments are CUDA's; not every status is checked by this method"
                )]
                pub(super) unsafe fn $name(&self, $($argument: $type),*) -> DriverResult<()> {
                    // SAFETY: passed on to the caller.
                    check(stringify!($name), unsafe { (self.$name)($($argument),*) })
                }
            )*
        }
    };
}

macro_rules! compare {
    ([$old:literal] $($signature:tt)*) => {};
    ([] $name:ident($($type:ty),*)) => {
        const _: unsafe fn($($type),*) -> sys::CUresult = sys::$name;
    };
}

entry_points! {
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut sys::CUdevice, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: sys::CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: sys::CUdevice_attribute, device: sys::CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: sys::CUdevice);

    fn cuDevicePrimaryCtxRetain(context: *mut sys::CUcontext, device: sys::CUdevice);
    fn cuCtxGetCurrent(context: *mut sys::CUcontext);
    fn cuCtxSetCurrent(context: sys::CUcontext);
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    fn cuThreadExchangeStreamCaptureMode(mode: *mut sys::CUstreamCaptureMode);

    fn cuStreamCreateWithPriority(stream: *mut sys::CUstream, flags: c_uint, priority: c_int);
    fn cuStreamDestroy_v2(stream: sys::CUstream);
    fn cuStreamSynchronize(stream: sys::CUstream);
    fn cuStreamWaitEvent(stream: sys::CUstream, event: sys::CUevent, flags: c_uint);
    fn cuStreamBeginCapture_v2(stream: sys::CUstream, mode: sys::CUstreamCaptureMode);
    fn cuStreamEndCapture(stream: sys::CUstream, graph: *mut sys::CUgraph);
    fn cuStreamIsCapturing(stream: sys::CUstream, status: *mut sys::CUstreamCaptureStatus);

    fn cuStreamGetCaptureInfo_v2(
        stream: sys::CUstream,
        status: *mut sys::CUstreamCaptureStatus,
        id: *mut sys::cuuint64_t,
        graph: *mut sys::CUgraph,
        dependencies: *mut *const sys::CUgraphNode,
        count: *mut usize,
    );

    fn cuEventCreate(event: *mut sys::CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: sys::CUevent);
    fn cuEventRecord(event: sys::CUevent, stream: sys::CUstream);
    fn cuEventQuery(event: sys::CUevent);
    fn cuEventSynchronize(event: sys::CUevent);
    fn cuEventElapsedTime(milliseconds: *mut f32, start: sys::CUevent, end: sys::CUevent);

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemPoolCreate(pool: *mut sys::CUmemoryPool, properties: *const sys::CUmemPoolProps);
    fn cuMemPoolSetAttribute(pool: sys::CUmemoryPool, attribute: sys::CUmemPool_attribute, value: *mut c_void);
    fn cuMemPoolGetAttribute(pool: sys::CUmemoryPool, attribute: sys::CUmemPool_attribute, value: *mut c_void);
    fn cuMemPoolSetAccess(pool: sys::CUmemoryPool, access: *const sys::CUmemAccessDesc, count: usize);
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: sys::CUdevice, peer: sys::CUdevice);
    fn cuMemcpyPeerAsync(
        destination: sys::CUdeviceptr,
        destination_context: sys::CUcontext,
        source: sys::CUdeviceptr,
        source_context: sys::CUcontext,
        bytes: usize,
        stream: sys::CUstream,
    );
    fn cuMemPoolTrimTo(pool: sys::CUmemoryPool, keep_bytes: usize);
    fn cuMemAllocFromPoolAsync(
        address: *mut sys::CUdeviceptr,
        bytes: usize,
        pool: sys::CUmemoryPool,
        stream: sys::CUstream,
    );
    fn cuMemFreeAsync(address: sys::CUdeviceptr, stream: sys::CUstream);
    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemHostUnregister(address: *mut c_void);
    fn cuMemcpyHtoDAsync_v2(
        destination: sys::CUdeviceptr,
        source: *const c_void,
        bytes: usize,
        stream: sys::CUstream,
    );
    fn cuMemcpyDtoHAsync_v2(
        destination: *mut c_void,
        source: sys::CUdeviceptr,
        bytes: usize,
        stream: sys::CUstream,
    );
    fn cuMemcpyDtoDAsync_v2(
        destination: sys::CUdeviceptr,
        source: sys::CUdeviceptr,
        bytes: usize,
        stream: sys::CUstream,
    );
    fn cuMemsetD8Async(destination: sys::CUdeviceptr, value: c_uchar, count: usize, stream: sys::CUstream);
    fn cuMemsetD16Async(destination: sys::CUdeviceptr, value: c_ushort, count: usize, stream: sys::CUstream);
    fn cuMemsetD32Async(destination: sys::CUdeviceptr, value: c_uint, count: usize, stream: sys::CUstream);
    fn cuMemsetD2D8Async(
        destination: sys::CUdeviceptr,
        pitch_bytes: usize,
        value: c_uchar,
        width: usize,
        height: usize,
        stream: sys::CUstream,
    );
    fn cuMemsetD2D16Async(
        destination: sys::CUdeviceptr,
        pitch_bytes: usize,
        value: c_ushort,
        width: usize,
        height: usize,
        stream: sys::CUstream,
    );
    fn cuMemsetD2D32Async(
        destination: sys::CUdeviceptr,
        pitch_bytes: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: sys::CUstream,
    );

    fn cuModuleLoadDataEx(
        module: *mut sys::CUmodule,
        image: *const c_void,
        option_count: c_uint,
        options: *mut sys::CUjit_option,
        values: *mut *mut c_void,
    );
    fn cuModuleGetFunction(function: *mut sys::CUfunction, module: sys::CUmodule, name: *const c_char);
    fn cuLaunchKernel(
        function: sys::CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: sys::CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );

    fn cuGraphInstantiateWithFlags(executable: *mut sys::CUgraphExec, graph: sys::CUgraph, flags: c_ulonglong);
    fn cuGraphExecUpdate(
        executable: sys::CUgraphExec,
        graph: sys::CUgraph,
        error_node: *mut sys::CUgraphNode,
        result: *mut sys::CUgraphExecUpdateResult,
    ) of "CUDA 11";
    fn cuGraphExecKernelNodeSetParams(
        executable: sys::CUgraphExec,
        node: sys::CUgraphNode,
        parameters: *const sys::CUDA_KERNEL_NODE_PARAMS_st,
    ) of "CUDA 11";
    fn cuGraphLaunch(executable: sys::CUgraphExec, stream: sys::CUstream);
    fn cuGraphDestroy(graph: sys::CUgraph);
    fn cuGraphExecDestroy(executable: sys::CUgraphExec);
}

/// Looks up one entry point.
///
/// # Safety
/// `F` is the type of the function of that name, and the library is present.
unsafe fn symbol<F: Copy>(name: &'static str) -> DriverResult<F> {
    // SAFETY: as for `is_culib_present`; the library is there, so that this doesn't panic, and is never unloaded.
    let library = unsafe { sys::culib() };
    // SAFETY: the type is the caller's promise.
    let found = unsafe { library.get::<F>(name) };
    found.map(|function| *function).map_err(|why| {
        DriverError::with_detail(
            name,
            ErrorCode::NOT_FOUND,
            format!("the CUDA driver installed lacks it ({why}); needed is {OLDEST_DRIVER} or later"),
        )
    })
}

/// The library, loaded and initialised (`cuInit`), once for the process.
pub(super) fn library() -> DriverResult<&'static Library> {
    static LIBRARY: OnceLock<DriverResult<Library>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            let library = Library::find()?;
            // SAFETY: the flags must be 0, and are.
            unsafe { library.cuInit(0) }?;
            Ok(library)
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// Number of GPUs that the driver shows to this process (`cuDeviceGetCount`).
pub(super) fn device_count() -> DriverResult<usize> {
    let mut count = 0;
    // SAFETY: the pointer is to a live int.
    unsafe { library()?.cuDeviceGetCount(&mut count) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}
