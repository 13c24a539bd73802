//! CUDA's own declarations: the entry points that this crate calls, and the types in their
//! signatures. They come from the headers that NVIDIA publishes with CUDA, NCCL and CUPTI.
//!
//! Names and numbers are the headers' own. A status, a flag or a kind is a number ([`types`]),
//! never a Rust enum: a library newer than the headers may return a value that no header lists, and
//! in a Rust enum such a value is undefined behaviour. Each list of entry points is a macro that
//! passes the list to another macro: to the macro that loads the functions, and to the test that
//! compares the list with cudarc's bindings (`bindings`).
//!
//! Nothing here uses the rest of the crate, so that `cargo xtask coexist` can compile this folder
//! by itself and compare it with the headers of other versions of CUDA.

#[cfg(test)]
mod bindings;
#[cfg(feature = "cupti")]
pub(crate) mod cupti;
pub(crate) mod driver;
#[cfg(feature = "nccl")]
pub(crate) mod nccl;
mod types;

pub(crate) use types::{
    CU_DEVICE_CPU, CU_MEM_ATTACH_GLOBAL, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE,
    CU_MEMHOSTALLOC_WRITECOMBINED, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE,
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUevent_flags, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUgraphExecUpdateResult, CUgraphNode, CUhostFn, CUjit_option,
    CUmem_advise, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationType, CUmemLocation, CUmemLocationType,
    CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUmemorytype, CUmodule, CUoccupancyB2DSize, CUresult,
    CUstream, CUstream_flags, CUstreamCaptureMode, CUstreamCaptureStatus,
};
