//! The driver API.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use cudarc::driver::sys;

use super::super::driver::driver_entry_points;
use super::super::types::{
    CUarray_st, CUctx_st, CUevent_st, CUfunc_st, CUgraph_st, CUgraphExec_st, CUgraphNode_st,
    CUmemPoolHandle_st, CUmod_st, CUstream_st, driver_numbers,
};
use super::super::{
    CU_DEVICE_CPU, CU_MEM_ATTACH_GLOBAL, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE,
    CU_MEMHOSTALLOC_WRITECOMBINED, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE,
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
    CUdevice_attribute, CUevent_flags, CUfunction_attribute, CUgraphExecUpdateResult, CUhostFn, CUjit_option,
    CUmem_advise, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationType, CUmemLocation, CUmemLocationType,
    CUmemPool_attribute, CUmemPoolProps, CUmemorytype, CUoccupancyB2DSize, CUresult, CUstream_flags,
    CUstreamCaptureMode, CUstreamCaptureStatus,
};
use super::{Same, same, same_entry_points, same_field, same_fields, same_function, same_numbers};
use crate::ffi;

same!(
    CUarray_st = sys::CUarray_st,
    CUctx_st = sys::CUctx_st,
    CUevent_st = sys::CUevent_st,
    CUfunc_st = sys::CUfunc_st,
    CUgraph_st = sys::CUgraph_st,
    CUgraphExec_st = sys::CUgraphExec_st,
    CUgraphNode_st = sys::CUgraphNode_st,
    CUmemPoolHandle_st = sys::CUmemPoolHandle_st,
    CUmod_st = sys::CUmod_st,
    CUstream_st = sys::CUstream_st,
    CUhostFn = sys::CUhostFn,
    CUoccupancyB2DSize = sys::CUoccupancyB2DSize,
    CUmemLocation = sys::CUmemLocation,
    CUmemAccessDesc = sys::CUmemAccessDesc,
    CUmemPoolProps = sys::CUmemPoolProps,
    CUDA_KERNEL_NODE_PARAMS = sys::CUDA_KERNEL_NODE_PARAMS_st,
    CUDA_MEMCPY2D = sys::CUDA_MEMCPY2D_st,
    CUDA_MEMCPY3D = sys::CUDA_MEMCPY3D_st,
);
// The bindings wrap this number in a struct.
impl Same<sys::CUmemAllocationHandleType> for u32 {}
const _: () = assert!(size_of::<sys::CUmemAllocationHandleType>() == size_of::<u32>());

same_fields!(CUmemLocation = sys::CUmemLocation: type_ = type_, id = id);
same_fields!(CUmemAccessDesc = sys::CUmemAccessDesc: location = location, flags = flags);
same_fields!(CUmemPoolProps = sys::CUmemPoolProps: allocType = allocType, handleTypes = handleTypes,
    location = location, win32SecurityAttributes = win32SecurityAttributes);
same_fields!(CUDA_KERNEL_NODE_PARAMS = sys::CUDA_KERNEL_NODE_PARAMS_st: func = func, gridDimX = gridDimX,
    gridDimY = gridDimY, gridDimZ = gridDimZ, blockDimX = blockDimX, blockDimY = blockDimY,
    blockDimZ = blockDimZ, sharedMemBytes = sharedMemBytes, kernelParams = kernelParams, extra = extra);
same_fields!(CUDA_MEMCPY2D = sys::CUDA_MEMCPY2D_st: srcXInBytes = srcXInBytes, srcY = srcY, srcMemoryType = srcMemoryType, srcHost = srcHost, srcDevice = srcDevice, srcArray = srcArray, srcPitch = srcPitch, dstXInBytes = dstXInBytes, dstY = dstY, dstMemoryType = dstMemoryType, dstHost = dstHost, dstDevice = dstDevice, dstArray = dstArray, dstPitch = dstPitch, WidthInBytes = WidthInBytes, Height = Height);
same_fields!(CUDA_MEMCPY3D = sys::CUDA_MEMCPY3D_st: srcXInBytes = srcXInBytes, srcY = srcY, srcZ = srcZ, srcLOD = srcLOD, srcMemoryType = srcMemoryType, srcHost = srcHost, srcDevice = srcDevice, srcArray = srcArray, srcPitch = srcPitch, srcHeight = srcHeight, dstXInBytes = dstXInBytes, dstY = dstY, dstZ = dstZ, dstLOD = dstLOD, dstMemoryType = dstMemoryType, dstHost = dstHost, dstDevice = dstDevice, dstArray = dstArray, dstPitch = dstPitch, dstHeight = dstHeight, WidthInBytes = WidthInBytes, Height = Height, Depth = Depth);

driver_numbers!(same_numbers[sys]);
const _: () = assert!(sys::CU_MEMHOSTREGISTER_PORTABLE == CU_MEMHOSTREGISTER_PORTABLE);
const _: () = assert!(sys::CU_MEMHOSTALLOC_PORTABLE == CU_MEMHOSTALLOC_PORTABLE);
const _: () = assert!(sys::CU_MEMHOSTALLOC_DEVICEMAP == CU_MEMHOSTALLOC_DEVICEMAP);
const _: () = assert!(sys::CU_MEMHOSTALLOC_WRITECOMBINED == CU_MEMHOSTALLOC_WRITECOMBINED);
const _: () = assert!(sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32 == CU_MEM_ATTACH_GLOBAL);
const _: () = assert!(CU_DEVICE_CPU == -1, "the header's macro is `((CUdevice)-1)`");
const _: () = assert!(sys::CU_MEMHOSTREGISTER_DEVICEMAP == CU_MEMHOSTREGISTER_DEVICEMAP);
const _: () = assert!(
    sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0 as u64
        == CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
);
#[cfg(not(bindings_of_cuda_11))]
const _: () = assert!(
    sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED as u32
        == CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED.0
);

driver_entry_points!(same_entry_points [sys returns CUresult]);
