//! The kernels shipped with cuda-rt.
