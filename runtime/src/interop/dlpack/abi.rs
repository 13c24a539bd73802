//! The C structs of DLPack, as version 1 of its header `dlpack.h` declares them, under the header's
//! names.
//!
//! A struct with a version begins with it, so a consumer can read the version of any later struct.
//! The older [`DLManagedTensor`] has neither a version nor flags.

use std::ffi::c_void;
use std::fmt;

/// The version of the structs below. Another major version has another layout. A minor version adds
/// codes of devices, of types and of flags.
pub const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };

/// A version of DLPack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLPackVersion {
    /// Structs of another major version have another layout.
    pub major: u32,
    /// A later minor version only adds codes.
    pub minor: u32,
}

/// Ordinary memory of the host.
pub const DL_CPU: i32 = 1;
/// Memory of a GPU, which `device_id` names.
pub const DL_CUDA: i32 = 2;
/// Page-locked memory of the host.
pub const DL_CUDA_HOST: i32 = 3;
/// Managed memory (`cuMemAllocManaged`).
pub const DL_CUDA_MANAGED: i32 = 13;

/// The device whose memory a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    /// The kind of memory: [`DL_CUDA`] and the other constants.
    pub device_type: i32,
    /// The ordinal of the GPU; 0 for memory of the host.
    pub device_id: i32,
}

impl fmt::Display for DLDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device_type {
            DL_CPU => f.write_str("ordinary memory of the host (kDLCPU)"),
            DL_CUDA => write!(f, "memory of GPU {} (kDLCUDA)", self.device_id),
            DL_CUDA_HOST => f.write_str("page-locked memory of the host (kDLCUDAHost)"),
            DL_CUDA_MANAGED => f.write_str("managed memory (kDLCUDAManaged)"),
            other => write!(f, "memory of device type {other}, device {}", self.device_id),
        }
    }
}

/// Signed integers.
pub const DL_INT: u8 = 0;
/// Unsigned integers.
pub const DL_UINT: u8 = 1;
/// Floats of IEEE 754.
pub const DL_FLOAT: u8 = 2;
/// `bfloat16`.
pub const DL_BFLOAT: u8 = 4;
/// Complex numbers of two floats; `bits` counts both.
pub const DL_COMPLEX: u8 = 5;
/// Bytes that are 0 or 1.
pub const DL_BOOL: u8 = 6;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDataType {
    /// The kind of number: [`DL_FLOAT`] and the other constants.
    pub code: u8,
    /// The bits of one lane.
    pub bits: u8,
    /// The lanes of one element: 1, unless the elements are vectors.
    pub lanes: u16,
}

impl DLDataType {
    /// A type of one lane.
    pub const fn scalar(code: u8, bits: u8) -> Self {
        let lanes = 1;
        Self { code, bits, lanes }
    }

    /// The bits of an element.
    pub(super) const fn all_bits(self) -> usize {
        self.bits as usize * self.lanes as usize
    }
}

impl fmt::Display for DLDataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, bits, lanes } = self;
        match *code {
            DL_INT => write!(f, "int{bits}"),
            DL_UINT => write!(f, "uint{bits}"),
            DL_FLOAT => write!(f, "float{bits}"),
            DL_BFLOAT => write!(f, "bfloat{bits}"),
            DL_COMPLEX => write!(f, "complex{bits}"),
            // A bool of another size has no name in Python.
            DL_BOOL if *bits == 8 => f.write_str("bool"),
            DL_BOOL => write!(f, "bool{bits}"),
            other => write!(f, "type {other} of {bits} bits"),
        }?;
        match lanes {
            1 => Ok(()),
            lanes => write!(f, "x{lanes}"),
        }
    }
}

/// A tensor: where its elements are, and in which order. It owns nothing.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLTensor {
    /// The address of the memory; null if there are no elements.
    pub data: *mut c_void,
    /// The device whose memory it is.
    pub device: DLDevice,
    /// The number of dimensions; 0 for a single element.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The `ndim` extents, in elements.
    pub shape: *mut i64,
    /// The `ndim` distances between neighbours, in elements. Null if the tensor is compact and in
    /// row-major order.
    pub strides: *mut i64,
    /// The distance of the first element from `data`, in bytes.
    pub byte_offset: u64,
}

/// A function that ends a tensor. The consumer calls it once.
pub type Deleter<M> = unsafe extern "C" fn(*mut M);

/// A tensor and its owner, without a version: the struct of producers older than DLPack 1.0.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Ends the tensor. `None` if there is nothing to end.
    pub deleter: Option<Deleter<DLManagedTensor>>,
}

/// The flag of a tensor that the consumer must not write.
pub const DL_READ_ONLY: u64 = 1;
/// The flag of a tensor that the producer copied for this consumer.
pub const DL_IS_COPIED: u64 = 1 << 1;
/// The flag of a tensor whose elements of less than a byte take a byte each
/// (`DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED`, from DLPack 1.1 on).
pub(super) const DL_IS_PADDED: u64 = 1 << 2;

/// A tensor, its owner, its version and its flags.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The version of the struct. Of another major version, only `deleter` may be used.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Ends the tensor. `None` if there is nothing to end.
    pub deleter: Option<Deleter<DLManagedTensorVersioned>>,
    /// [`DL_READ_ONLY`] and [`DL_IS_COPIED`]; other bits mean nothing here.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    /// The numbers are those of a C compiler for `dlpack.h`, on 64-bit platforms.
    #[test]
    fn structs_have_the_layout_of_the_header() {
        assert_eq!((size_of::<DLPackVersion>(), size_of::<DLDevice>()), (8, 8));
        assert_eq!((size_of::<DLDataType>(), align_of::<DLDataType>()), (4, 2));
        let tensor = [
            offset_of!(DLTensor, data),
            offset_of!(DLTensor, device),
            offset_of!(DLTensor, ndim),
            offset_of!(DLTensor, dtype),
            offset_of!(DLTensor, shape),
            offset_of!(DLTensor, strides),
            offset_of!(DLTensor, byte_offset),
            size_of::<DLTensor>(),
        ];
        assert_eq!(tensor, [0, 8, 16, 20, 24, 32, 40, 48]);
        let managed = [
            offset_of!(DLManagedTensor, dl_tensor),
            offset_of!(DLManagedTensor, manager_ctx),
            offset_of!(DLManagedTensor, deleter),
            size_of::<DLManagedTensor>(),
        ];
        assert_eq!(managed, [0, 48, 56, 64]);
        let versioned = [
            offset_of!(DLManagedTensorVersioned, version),
            offset_of!(DLManagedTensorVersioned, manager_ctx),
            offset_of!(DLManagedTensorVersioned, deleter),
            offset_of!(DLManagedTensorVersioned, flags),
            offset_of!(DLManagedTensorVersioned, dl_tensor),
            size_of::<DLManagedTensorVersioned>(),
        ];
        assert_eq!(versioned, [0, 8, 16, 24, 32, 80]);
    }

    #[test]
    fn types_and_devices_are_named_in_words() {
        let mut float = DLDataType::scalar(DL_FLOAT, 32);
        assert_eq!(float.to_string(), "float32");
        float.lanes = 4;
        assert_eq!((float.to_string(), float.all_bits()), ("float32x4".into(), 128));
        assert_eq!(DLDataType::scalar(DL_BOOL, 8).to_string(), "bool");
        let unknown = DLDataType::scalar(17, 4);
        assert_eq!(unknown.to_string(), "type 17 of 4 bits");
        let device = |device_type| DLDevice {
            device_type,
            device_id: 3,
        };
        assert_eq!(device(DL_CUDA).to_string(), "memory of GPU 3 (kDLCUDA)");
        assert_eq!(device(7).to_string(), "memory of device type 7, device 3");
    }
}
