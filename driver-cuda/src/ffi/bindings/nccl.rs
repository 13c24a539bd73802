//! NCCL.

use std::ffi::{c_char, c_int, c_void};

use cudarc::nccl::sys;

use super::super::CUstream;
use super::super::nccl::{
    nccl_entry_points, nccl_numbers, ncclComm, ncclDataType_t, ncclRedOp_t, ncclResult_t,
};
use super::{Same, same, same_entry_points, same_function, same_numbers};
use crate::ffi;

same!(ncclComm = sys::ncclComm);
// NCCL's bindings have their own type for a stream; CUDA's handle is a pointer to the same struct.
impl Same<sys::cudaStream_t> for CUstream {}

nccl_numbers!(same_numbers[sys]);
nccl_entry_points!(same_entry_points [sys returns ncclResult_t]);
