//! What kernels are written against: indices, outputs, blocks that work in phases, and math.
//!
//! The same source is compiled twice. For `nvptx64-nvidia-cuda` it becomes PTX; on the host it becomes a plain function
//! that runs the whole launch on the CPU, which is what the simulated device executes.
//!
//! ```
//! use device_std::prelude::*;
//!
//! /// What `#[kernel]` makes of a function like this one is a typed launch; the body stays safe code.
//! fn scale(i: Index1, input: &[f32], mut output: PerThread<f32>, factor: f32) {
//!     if let Some(out) = output.get_mut(i) {
//!         *out = input[i.get()] * factor;
//!     }
//! }
//! ```
//!
//! # What a safe kernel cannot do
//!
//! | attempt | what stops it |
//! |---|---|
//! | make up an index, or write another thread's element | [`Index1`] and its like have private fields, and outputs take nothing else |
//! | keep an index for another thread | it is branded with a lifetime that `#[kernel]` inserts, and is neither `Send` nor `Sync` |
//! | alias through a wrong grid | the exact extent is a hidden launch parameter: threads outside it get no index |
//! | alias through a wrapped index | indices are 64 bits wide, and extents whose volume does not fit trap |
//! | use two kinds of index on one output | a kernel has one index or one block, and a block gives out one kind |
//! | meet a barrier in some threads only | block-level code sees uniform values only, and no cell crosses into it ([`PhaseSafe`]) |
//! | read shared memory while it is written | views open with a [`Thread`] only, which exists in phases that end in a barrier |
//!
//! # What is not caught
//!
//! An atomic in a `static` would let block-level code see what other threads did, and so diverge at a barrier; `kernel-build` refuses
//! modules that hold a mutable static. A kernel that never ends is not caught on a GPU without a watchdog.
//!
//! # Who validates what
//!
//! The launch (`cuda-rt`) proves that buffers are live, ordered and distinct, and that grid, block and shared memory are
//! those the kernel was compiled for. This crate proves that no two threads of one launch conflict.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        asm_experimental_arch,
        auto_traits,
        core_float_math,
        core_intrinsics,
        gpu_intrinsics,
        gpu_launch_sized_workgroup_mem,
        link_llvm_intrinsics,
        negative_impls,
        stdarch_nvptx
    ),
    allow(internal_features)
)]

// A derive written for users names `::device_std`, here too.
extern crate self as device_std;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("device addresses and lengths are 64 bits wide: the host must be a 64-bit one");

mod block;
#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(feature = "rustacuda")]
mod device_copied;
#[doc(hidden)]
pub mod element;
mod expansion;
mod extent;
mod float;
mod image;
mod index;
pub mod layout;
mod module;
mod output;
#[cfg(not(target_arch = "nvptx64"))]
pub mod ptx;
#[doc(hidden)]
pub mod rt;
#[cfg(not(target_arch = "nvptx64"))]
mod simulated;

/// For the derives that [`Element`] needs beside its own.
pub use bytemuck;

pub use block::{
    Block, Block2, BlockShared, BlockUninit, Dimensions, EachMut, Lane, OneD, PhaseSafe, Private,
    SharedAtomic, ShuffleElement, Thread, TwoD, View,
};
pub use cuda_rt_macros::{Element, kernel};
#[cfg(feature = "rustacuda")]
pub use device_copied::{AnyBits, DeviceCopied};
pub use element::{Element, Scalar};
pub use extent::Extent;
pub use float::{Float, fast};
pub use image::Image;
pub use index::{Index, Index1, Index2, Index3, PlaneIndex};
pub use output::{Atomic, AtomicElement, AtomicInteger, PerBlock, PerThread, PerThreadColumn, ThreadToken};

/// What a kernel's source usually needs.
pub mod prelude {
    pub use crate::{
        Atomic, Block, Block2, BlockUninit, Element, Float, Image, Index1, Index2, Index3, PerBlock,
        PerThread, PerThreadColumn, Scalar, fast, kernel,
    };
}
