//! Types and numbers of the driver API (`cuda.h`).
#![allow(
    non_camel_case_types,
    non_snake_case,
    clippy::upper_case_acronyms,
    reason = "the names are CUDA's"
)]

use std::ffi::{c_int, c_uchar, c_uint, c_ulonglong, c_void};

/// Declares handles: pointers to objects that only the driver knows, each with its own type.
macro_rules! handles {
    ($($handle:ident = $pointee:ident;)*) => { $(
        #[repr(C)]
        pub(crate) struct $pointee { opaque: [u8; 0] }
        pub(crate) type $handle = *mut $pointee;
    )* };
}

handles! {
    CUarray = CUarray_st;
    CUcontext = CUctx_st;
    CUevent = CUevent_st;
    CUfunction = CUfunc_st;
    CUgraph = CUgraph_st;
    CUgraphExec = CUgraphExec_st;
    CUgraphNode = CUgraphNode_st;
    CUmemoryPool = CUmemPoolHandle_st;
    CUmodule = CUmod_st;
    CUstream = CUstream_st;
}

/// A host function (`CUhostFn`).
pub(crate) type CUhostFn = Option<unsafe extern "C" fn(*mut c_void)>;

/// A function from the threads of a block to the bytes of its shared memory
/// (`CUoccupancyB2DSize`).
pub(crate) type CUoccupancyB2DSize = Option<unsafe extern "C" fn(c_int) -> usize>;

/// A device, by its ordinal.
pub(crate) type CUdevice = c_int;
/// An address in device memory.
pub(crate) type CUdeviceptr = c_ulonglong;

/// Declares the headers' enums as C's `unsigned int`, with the values that are used here.
macro_rules! numbers {
    ($($(#[$attribute:meta])* enum $type:ident { $($name:ident = $value:literal),* $(,)? })*) => { $(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $type(pub(crate) std::ffi::c_uint);

        impl $type { $(pub(crate) const $name: Self = Self($value);)* }
    )* };
}
#[cfg(any(feature = "cupti", feature = "nccl"))]
pub(super) use numbers;

/// Passes the numbers of the driver API to the macro `$expand`.
macro_rules! driver_numbers {
    ($expand:ident $($head:tt)*) => { $expand! { $($head)*
        /// The status that every driver function returns.
        enum CUresult {
            CUDA_SUCCESS = 0,
            CUDA_ERROR_NOT_INITIALIZED = 3,
            CUDA_ERROR_DEINITIALIZED = 4,
            CUDA_ERROR_NOT_READY = 600,
        }

        enum CUdevice_attribute {
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
            CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
            CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
            CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
            CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
            CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
            CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
            CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
            CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
            CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
            CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
            CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
            CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
            CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
            CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
            CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
        }

        enum CUfunction_attribute {
            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
            CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
            CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
        }

        enum CUevent_flags { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 }
        enum CUstream_flags { CU_STREAM_NON_BLOCKING = 1 }

        enum CUstreamCaptureMode { CU_STREAM_CAPTURE_MODE_RELAXED = 2 }
        enum CUstreamCaptureStatus { CU_STREAM_CAPTURE_STATUS_NONE = 0, CU_STREAM_CAPTURE_STATUS_ACTIVE = 1 }

        /// The reason why a graph was not updated.
        enum CUgraphExecUpdateResult {
            CU_GRAPH_EXEC_UPDATE_SUCCESS = 0,
            CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 2,
            CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 3,
            CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED = 4,
            CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 5,
            CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED = 6,
            CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE = 7,
        }

        enum CUjit_option { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 }

        enum CUmemorytype { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 }
        enum CUmem_advise {
            CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
            CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
            CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
            CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
            CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
            CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
        }

        enum CUmemAccess_flags { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 }
        enum CUmemAllocationType { CU_MEM_ALLOCATION_TYPE_PINNED = 1 }
        enum CUmemLocationType { CU_MEM_LOCATION_TYPE_DEVICE = 1 }

        enum CUmemPool_attribute {
            CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
            CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
            CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
            CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
            CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
            CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
            CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
            CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
        }
    } };
}
#[cfg(test)]
pub(super) use driver_numbers;

driver_numbers!(numbers);

impl CUgraphExecUpdateResult {
    /// In CUDA 11.6 and later.
    pub(crate) const CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED: Self = Self(8);
}

/// The registered memory is page-locked for every context of the process.
pub(crate) const CU_MEMHOSTREGISTER_PORTABLE: c_uint = 1;
/// The registered memory has a device address in every context.
pub(crate) const CU_MEMHOSTREGISTER_DEVICEMAP: c_uint = 2;
/// The allocated memory is page-locked for every context of the process.
pub(crate) const CU_MEMHOSTALLOC_PORTABLE: c_uint = 1;
/// The allocated memory has a device address in every context.
pub(crate) const CU_MEMHOSTALLOC_DEVICEMAP: c_uint = 2;
/// The host's processor does not cache the allocated memory, and combines writes to it.
pub(crate) const CU_MEMHOSTALLOC_WRITECOMBINED: c_uint = 4;
/// Managed memory that every stream of every device may use.
pub(crate) const CU_MEM_ATTACH_GLOBAL: c_uint = 1;
/// The host, where a call of managed memory names a device.
pub(crate) const CU_DEVICE_CPU: CUdevice = -1;
/// At the next launch, CUDA frees memory that the graph allocated and did not free.
pub(crate) const CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH: c_ulonglong = 1;

/// The location of memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUmemLocation {
    pub(crate) type_: CUmemLocationType,
    /// The device's ordinal.
    pub(crate) id: c_int,
}

/// Who may access the memory of a pool.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUmemAccessDesc {
    pub(crate) location: CUmemLocation,
    pub(crate) flags: CUmemAccess_flags,
}

/// The properties of a memory pool. Later versions turned parts of `reserved` into fields; zero is
/// each field's default.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUmemPoolProps {
    pub(crate) allocType: CUmemAllocationType,
    /// How allocations may be exported to other processes; 0 means not at all.
    pub(crate) handleTypes: c_uint,
    pub(crate) location: CUmemLocation,
    pub(crate) win32SecurityAttributes: *mut c_void,
    pub(crate) reserved: [c_uchar; 64],
}

/// A launch as a node of a graph (`CUDA_KERNEL_NODE_PARAMS_v1` in the headers of CUDA 12 and
/// later).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUDA_KERNEL_NODE_PARAMS {
    pub(crate) func: CUfunction,
    pub(crate) gridDimX: c_uint,
    pub(crate) gridDimY: c_uint,
    pub(crate) gridDimZ: c_uint,
    pub(crate) blockDimX: c_uint,
    pub(crate) blockDimY: c_uint,
    pub(crate) blockDimZ: c_uint,
    pub(crate) sharedMemBytes: c_uint,
    pub(crate) kernelParams: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
}

/// A copy of rows between linear memory or arrays (`CUDA_MEMCPY2D_v2`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUDA_MEMCPY2D {
    pub(crate) srcXInBytes: usize,
    pub(crate) srcY: usize,
    pub(crate) srcMemoryType: CUmemorytype,
    pub(crate) srcHost: *const c_void,
    pub(crate) srcDevice: CUdeviceptr,
    pub(crate) srcArray: CUarray,
    pub(crate) srcPitch: usize,
    pub(crate) dstXInBytes: usize,
    pub(crate) dstY: usize,
    pub(crate) dstMemoryType: CUmemorytype,
    pub(crate) dstHost: *mut c_void,
    pub(crate) dstDevice: CUdeviceptr,
    pub(crate) dstArray: CUarray,
    pub(crate) dstPitch: usize,
    pub(crate) WidthInBytes: usize,
    pub(crate) Height: usize,
}

/// A copy of planes of rows between linear memory or arrays (`CUDA_MEMCPY3D_v2`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUDA_MEMCPY3D {
    pub(crate) srcXInBytes: usize,
    pub(crate) srcY: usize,
    pub(crate) srcZ: usize,
    pub(crate) srcLOD: usize,
    pub(crate) srcMemoryType: CUmemorytype,
    pub(crate) srcHost: *const c_void,
    pub(crate) srcDevice: CUdeviceptr,
    pub(crate) srcArray: CUarray,
    pub(crate) reserved0: *mut c_void,
    pub(crate) srcPitch: usize,
    pub(crate) srcHeight: usize,
    pub(crate) dstXInBytes: usize,
    pub(crate) dstY: usize,
    pub(crate) dstZ: usize,
    pub(crate) dstLOD: usize,
    pub(crate) dstMemoryType: CUmemorytype,
    pub(crate) dstHost: *mut c_void,
    pub(crate) dstDevice: CUdeviceptr,
    pub(crate) dstArray: CUarray,
    pub(crate) reserved1: *mut c_void,
    pub(crate) dstPitch: usize,
    pub(crate) dstHeight: usize,
    pub(crate) WidthInBytes: usize,
    pub(crate) Height: usize,
    pub(crate) Depth: usize,
}
