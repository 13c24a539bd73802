//! Builds a crate of kernels to PTX.
