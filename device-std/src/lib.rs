//! What kernels are written against.
#![cfg_attr(target_arch = "nvptx64", no_std)]

mod element;

pub use element::{Element, Extent, Scalar};
