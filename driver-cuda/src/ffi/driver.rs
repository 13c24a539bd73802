//! The entry points of the driver API (`cuda.h`). Each is listed by the symbol that the library
//! exports, with the CUDA version that introduced it.
//!
//! If a header's macro maps a name to a later version of its symbol, the list has the symbol
//! (`cuMemcpyHtoDAsync_v2`). Drivers keep a symbol and its signature for good. `until` names the
//! CUDA version whose header has a later version of the symbol. `_ptsz` symbols are not listed:
//! they differ only for the default stream, which is never used.

/// Passes the entry points of the driver to the macro `$expand`. The caller must have `ffi` in
/// scope: it names types of [`ffi`](super).
macro_rules! driver_entry_points {
    ($expand:ident $($head:tt)*) => { $expand! { $($head)*
        since "CUDA 2.0": fn cuInit(flags: c_uint);
        since "CUDA 2.2": fn cuDriverGetVersion(version: *mut c_int);
        since "CUDA 2.0": fn cuDeviceGetCount(count: *mut c_int);
        since "CUDA 2.0": fn cuDeviceGet(device: *mut ffi::CUdevice, ordinal: c_int);
        since "CUDA 2.0": fn cuDeviceGetName(name: *mut c_char, length: c_int, device: ffi::CUdevice);
        since "CUDA 2.0": fn cuDeviceGetAttribute(
            value: *mut c_int,
            attribute: ffi::CUdevice_attribute,
            device: ffi::CUdevice,
        );
        since "CUDA 3.2": fn cuDeviceTotalMem_v2(bytes: *mut usize, device: ffi::CUdevice);

        since "CUDA 7.0": fn cuDevicePrimaryCtxRetain(context: *mut ffi::CUcontext, device: ffi::CUdevice);
        since "CUDA 4.0": fn cuCtxGetCurrent(context: *mut ffi::CUcontext);
        since "CUDA 4.0": fn cuCtxSetCurrent(context: ffi::CUcontext);
        since "CUDA 5.5": fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
        since "CUDA 10.1": fn cuThreadExchangeStreamCaptureMode(mode: *mut ffi::CUstreamCaptureMode);

        since "CUDA 5.5": fn cuStreamCreateWithPriority(
            stream: *mut ffi::CUstream,
            flags: c_uint,
            priority: c_int,
        );
        since "CUDA 4.0": fn cuStreamDestroy_v2(stream: ffi::CUstream);
        since "CUDA 2.0": fn cuStreamSynchronize(stream: ffi::CUstream);
        since "CUDA 2.0": fn cuStreamQuery(stream: ffi::CUstream);
        since "CUDA 3.2": fn cuStreamWaitEvent(stream: ffi::CUstream, event: ffi::CUevent, flags: c_uint);
        since "CUDA 10.0": fn cuLaunchHostFunc(
            stream: ffi::CUstream,
            function: ffi::CUhostFn,
            data: *mut c_void,
        );
        since "CUDA 10.1": fn cuStreamBeginCapture_v2(stream: ffi::CUstream, mode: ffi::CUstreamCaptureMode);
        since "CUDA 10.0": fn cuStreamEndCapture(stream: ffi::CUstream, graph: *mut ffi::CUgraph);
        since "CUDA 10.0": fn cuStreamIsCapturing(
            stream: ffi::CUstream,
            status: *mut ffi::CUstreamCaptureStatus,
        );

        since "CUDA 11.3" until "CUDA 13.0": fn cuStreamGetCaptureInfo_v2(
            stream: ffi::CUstream,
            status: *mut ffi::CUstreamCaptureStatus,
            id: *mut c_ulonglong,
            graph: *mut ffi::CUgraph,
            dependencies: *mut *const ffi::CUgraphNode,
            count: *mut usize,
        );

        since "CUDA 2.0": fn cuEventCreate(event: *mut ffi::CUevent, flags: c_uint);
        since "CUDA 4.0": fn cuEventDestroy_v2(event: ffi::CUevent);
        since "CUDA 2.0": fn cuEventRecord(event: ffi::CUevent, stream: ffi::CUstream);
        since "CUDA 2.0": fn cuEventQuery(event: ffi::CUevent);
        since "CUDA 2.0": fn cuEventSynchronize(event: ffi::CUevent);
        since "CUDA 2.0" until "CUDA 13.0": fn cuEventElapsedTime(
            milliseconds: *mut f32,
            start: ffi::CUevent,
            end: ffi::CUevent,
        );

        since "CUDA 3.2": fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        since "CUDA 11.2": fn cuMemPoolCreate(
            pool: *mut ffi::CUmemoryPool,
            properties: *const ffi::CUmemPoolProps,
        );
        since "CUDA 11.2": fn cuMemPoolSetAttribute(
            pool: ffi::CUmemoryPool,
            attribute: ffi::CUmemPool_attribute,
            value: *mut c_void,
        );
        since "CUDA 11.2": fn cuMemPoolGetAttribute(
            pool: ffi::CUmemoryPool,
            attribute: ffi::CUmemPool_attribute,
            value: *mut c_void,
        );
        since "CUDA 11.2": fn cuMemPoolSetAccess(
            pool: ffi::CUmemoryPool,
            access: *const ffi::CUmemAccessDesc,
            count: usize,
        );
        since "CUDA 4.0": fn cuDeviceCanAccessPeer(can: *mut c_int, device: ffi::CUdevice, peer: ffi::CUdevice);
        since "CUDA 4.0": fn cuMemcpyPeerAsync(
            destination: ffi::CUdeviceptr,
            destination_context: ffi::CUcontext,
            source: ffi::CUdeviceptr,
            source_context: ffi::CUcontext,
            bytes: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 11.2": fn cuMemPoolTrimTo(pool: ffi::CUmemoryPool, keep_bytes: usize);
        since "CUDA 11.2": fn cuMemAllocFromPoolAsync(
            address: *mut ffi::CUdeviceptr,
            bytes: usize,
            pool: ffi::CUmemoryPool,
            stream: ffi::CUstream,
        );
        since "CUDA 11.2": fn cuMemFreeAsync(address: ffi::CUdeviceptr, stream: ffi::CUstream);
        since "CUDA 6.0": fn cuMemAllocManaged(address: *mut ffi::CUdeviceptr, bytes: usize, flags: c_uint);
        since "CUDA 3.2": fn cuMemFree_v2(address: ffi::CUdeviceptr);
        since "CUDA 8.0" until "CUDA 13.0": fn cuMemPrefetchAsync(
            address: ffi::CUdeviceptr,
            bytes: usize,
            to: ffi::CUdevice,
            stream: ffi::CUstream,
        );
        since "CUDA 8.0" until "CUDA 13.0": fn cuMemAdvise(
            address: ffi::CUdeviceptr,
            bytes: usize,
            advice: ffi::CUmem_advise,
            at: ffi::CUdevice,
        );
        since "CUDA 2.2": fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
        since "CUDA 2.0": fn cuMemFreeHost(address: *mut c_void);
        since "CUDA 6.5": fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint);
        since "CUDA 4.0": fn cuMemHostUnregister(address: *mut c_void);
        since "CUDA 3.2": fn cuMemHostGetDevicePointer_v2(
            on_device: *mut ffi::CUdeviceptr,
            address: *mut c_void,
            flags: c_uint,
        );
        since "CUDA 3.2": fn cuMemcpyHtoDAsync_v2(
            destination: ffi::CUdeviceptr,
            source: *const c_void,
            bytes: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 3.2": fn cuMemcpyDtoHAsync_v2(
            destination: *mut c_void,
            source: ffi::CUdeviceptr,
            bytes: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 3.2": fn cuMemcpyDtoDAsync_v2(
            destination: ffi::CUdeviceptr,
            source: ffi::CUdeviceptr,
            bytes: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 3.2": fn cuMemcpy2DAsync_v2(copy: *const ffi::CUDA_MEMCPY2D, stream: ffi::CUstream);
        since "CUDA 3.2": fn cuMemcpy3DAsync_v2(copy: *const ffi::CUDA_MEMCPY3D, stream: ffi::CUstream);
        since "CUDA 3.2": fn cuMemsetD8Async(
            destination: ffi::CUdeviceptr,
            value: c_uchar,
            count: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 3.2": fn cuMemsetD16Async(
            destination: ffi::CUdeviceptr,
            value: c_ushort,
            count: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 3.2": fn cuMemsetD32Async(
            destination: ffi::CUdeviceptr,
            value: c_uint,
            count: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 3.2": fn cuMemsetD2D8Async(
            destination: ffi::CUdeviceptr,
            pitch_bytes: usize,
            value: c_uchar,
            width: usize,
            height: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 3.2": fn cuMemsetD2D16Async(
            destination: ffi::CUdeviceptr,
            pitch_bytes: usize,
            value: c_ushort,
            width: usize,
            height: usize,
            stream: ffi::CUstream,
        );
        since "CUDA 3.2": fn cuMemsetD2D32Async(
            destination: ffi::CUdeviceptr,
            pitch_bytes: usize,
            value: c_uint,
            width: usize,
            height: usize,
            stream: ffi::CUstream,
        );

        since "CUDA 2.1": fn cuModuleLoadDataEx(
            module: *mut ffi::CUmodule,
            image: *const c_void,
            option_count: c_uint,
            options: *mut ffi::CUjit_option,
            values: *mut *mut c_void,
        );
        since "CUDA 2.0": fn cuModuleUnload(module: ffi::CUmodule);
        since "CUDA 2.0": fn cuModuleGetFunction(
            function: *mut ffi::CUfunction,
            module: ffi::CUmodule,
            name: *const c_char,
        );
        since "CUDA 2.2": fn cuFuncGetAttribute(
            value: *mut c_int,
            attribute: ffi::CUfunction_attribute,
            function: ffi::CUfunction,
        );
        since "CUDA 9.0": fn cuFuncSetAttribute(
            function: ffi::CUfunction,
            attribute: ffi::CUfunction_attribute,
            value: c_int,
        );
        since "CUDA 6.5": fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
            blocks: *mut c_int,
            function: ffi::CUfunction,
            threads: c_int,
            shared_bytes: usize,
        );
        since "CUDA 6.5": fn cuOccupancyMaxPotentialBlockSize(
            fewest_blocks: *mut c_int,
            threads: *mut c_int,
            function: ffi::CUfunction,
            shared_bytes_of: ffi::CUoccupancyB2DSize,
            shared_bytes: usize,
            most_threads: c_int,
        );
        since "CUDA 4.0": fn cuLaunchKernel(
            function: ffi::CUfunction,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared_bytes: c_uint,
            stream: ffi::CUstream,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        );

        since "CUDA 11.4": fn cuGraphInstantiateWithFlags(
            executable: *mut ffi::CUgraphExec,
            graph: ffi::CUgraph,
            flags: c_ulonglong,
        );
        since "CUDA 10.2" until "CUDA 12.0": fn cuGraphExecUpdate(
            executable: ffi::CUgraphExec,
            graph: ffi::CUgraph,
            error_node: *mut ffi::CUgraphNode,
            result: *mut ffi::CUgraphExecUpdateResult,
        );
        since "CUDA 10.1" until "CUDA 12.0": fn cuGraphExecKernelNodeSetParams(
            executable: ffi::CUgraphExec,
            node: ffi::CUgraphNode,
            parameters: *const ffi::CUDA_KERNEL_NODE_PARAMS,
        );
        since "CUDA 10.0": fn cuGraphLaunch(executable: ffi::CUgraphExec, stream: ffi::CUstream);
        since "CUDA 10.0": fn cuGraphDestroy(graph: ffi::CUgraph);
        since "CUDA 10.0": fn cuGraphExecDestroy(executable: ffi::CUgraphExec);
    } };
}
pub(crate) use driver_entry_points;
