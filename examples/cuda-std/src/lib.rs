//! Kernels written for Rust-CUDA, with its `cuda_std`, and launched by cuda-rt.
//!
//! - `src/kernels.rs` holds the kernels; with the feature `cuda_std` they are type-checked on the
//!   host.
//! - `kernels.ptx` holds the same kernels for the GPU, built by another compiler. Here nvcc built
//!   it from `kernels.cu`. `docs/rust-cuda.md` says how rustc_codegen_nvvm builds it from the Rust
//!   source.
//! - This module describes the kernels to cuda-rt: each parameter, and a function that does the
//!   kernel's work on the CPU. [`axpy`] and [`block_sums`] are then calls like the calls of
//!   `#[kernel]`: buffers must belong to the stream, and inputs cannot be outputs.

#![cfg_attr(
    feature = "cuda_std",
    allow(
        unexpected_cfgs,
        reason = "cuda_std's macros name targets that no longer exist"
    )
)]

#[cfg(feature = "cuda_std")]
#[allow(
    unexpected_cfgs,
    reason = "cuda_std's macros name targets that no longer exist"
)]
pub mod kernels;
mod simulated;

use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use cuda_rt::{DeviceSlice, Result, Stream, StreamTag};

/// Number of threads in a block.
pub const BLOCK: usize = 256;

// SAFETY: the module's kernels are described by hand below, and launched through `foreign_kernel`
// only, which states what the PTX does.
static MODULE: ModuleImage = unsafe { ModuleImage::new("cuda-std-kernels", include_str!("../kernels.ptx")) };

const fn parameter<T>(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: size_of::<T>(),
        align_bytes: align_of::<T>(),
        kind,
    }
}

const READ: Parameter = parameter::<u64>(ParameterKind::Read {
    element_bytes: size_of::<f32>(),
});
const WRITE: Parameter = parameter::<u64>(ParameterKind::Write {
    element_bytes: size_of::<f32>(),
});
const LENGTH: Parameter = parameter::<u64>(ParameterKind::Length);

static AXPY: Kernel = Kernel {
    name: "cuda_std_kernels::axpy",
    symbol: c"axpy",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[
        parameter::<f32>(ParameterKind::Scalar),
        READ,
        LENGTH,
        WRITE,
        LENGTH,
    ],
    layout: &[],
    simulate: simulated::axpy,
    cache: KernelCache::new(),
};

static BLOCK_SUMS: Kernel = Kernel {
    name: "cuda_std_kernels::block_sums",
    symbol: c"block_sums",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[READ, LENGTH, WRITE, LENGTH],
    layout: &[],
    simulate: simulated::block_sums,
    cache: KernelCache::new(),
};

/// The shape of a launch with at least `threads` threads, in whole blocks.
fn covering(threads: usize) -> LaunchShape {
    let blocks = u32::try_from(threads.div_ceil(BLOCK)).expect("fewer blocks than 2^32");
    LaunchShape {
        grid: [blocks, 1, 1],
        block: [BLOCK as u32, 1, 1],
        shared_bytes: 0,
        extent: Extent {
            x: threads as u64,
            y: 1,
            z: 1,
        },
    }
}

/// `y[i] = a * x[i] + y[i]`, for each `i` below both lengths. Stream-ordered.
///
/// # Errors
/// [`Error::Launch`](cuda_rt::Error::Launch).
pub fn axpy<S: StreamTag>(
    stream: &Stream<S>,
    a: f32,
    x: &DeviceSlice<f32, S>,
    y: &mut DeviceSlice<f32, S>,
) -> Result<()> {
    let shape = covering(x.len().min(y.len()));
    let launch = stream.foreign_kernel(&AXPY).value(a).read(x).write(y);
    // SAFETY: the PTX's entry has these parameters. It reads and writes elements below both
    // lengths, and only one thread uses each element.
    unsafe { launch.launch(&shape) }
}

/// `sums[b]` is the sum of the elements `256 * b .. 256 * (b + 1)` of `x`. Stream-ordered.
///
/// # Errors
/// [`Error::Launch`](cuda_rt::Error::Launch).
///
/// # Panics
/// If the length of `sums` differs from the number of blocks.
#[track_caller]
pub fn block_sums<S: StreamTag>(
    stream: &Stream<S>,
    x: &DeviceSlice<f32, S>,
    sums: &mut DeviceSlice<f32, S>,
) -> Result<()> {
    assert_eq!(sums.len(), x.len().div_ceil(BLOCK), "one sum for each block");
    let shape = covering(x.len());
    let launch = stream.foreign_kernel(&BLOCK_SUMS).read(x).write(sums);
    // SAFETY: the PTX's entry has these parameters. It reads and writes elements below both
    // lengths, and one thread writes each sum. All threads of a block meet its barriers. Its shared
    // memory is for blocks of 256 threads, as here.
    unsafe { launch.launch(&shape) }
}
