//! Kernels that were written for Rust-CUDA, with its `cuda_std`, launched by cuda-rt.
//!
//! - `src/kernels.rs` holds the kernels; with the feature `cuda_std` they are type-checked on the
//!   host.
//! - `kernels.ptx` is theirs for the GPU, of a compiler that is not ours. Here it is nvcc's, of
//!   `kernels.cu`; `docs/rust-cuda.md` says how rustc_codegen_nvvm makes it of the Rust source.
//! - This module describes them to cuda-rt: what each parameter is, and what the kernel does on the
//!   CPU. [`axpy`] and [`block_sums`] are then calls like those of `#[kernel]`: the buffers must be
//!   the stream's own, inputs are no outputs.

#![cfg_attr(
    feature = "cuda_std",
    allow(
        unexpected_cfgs,
        reason = "cuda_std's macros ask for targets that there are no more"
    )
)]

#[cfg(feature = "cuda_std")]
#[allow(
    unexpected_cfgs,
    reason = "cuda_std's macros ask for targets that there are no more"
)]
pub mod kernels;
mod simulated;

use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use cuda_rt::{DeviceSlice, Result, Stream, StreamTag};

/// Threads of a block.
pub const BLOCK: usize = 256;

// SAFETY: its kernels are described by hand below, and launched through `foreign_kernel` only.
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

/// A thread for each of `threads`, in whole blocks.
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

/// `y[i] = a * x[i] + y[i]`, as far as both reach. Stream-ordered.
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
    // SAFETY: the PTX's entry has those parameters; it reads and writes below both lengths, each
    // element in one thread.
    unsafe { launch.launch(&shape) }
}

/// `sums[b]` is the sum of elements `256 * b ..` of `x`. Stream-ordered.
///
/// # Errors
/// [`Error::Launch`](cuda_rt::Error::Launch).
///
/// # Panics
/// If `sums` has another length than there are blocks.
#[track_caller]
pub fn block_sums<S: StreamTag>(
    stream: &Stream<S>,
    x: &DeviceSlice<f32, S>,
    sums: &mut DeviceSlice<f32, S>,
) -> Result<()> {
    assert_eq!(sums.len(), x.len().div_ceil(BLOCK), "one sum for each block");
    let shape = covering(x.len());
    let launch = stream.foreign_kernel(&BLOCK_SUMS).read(x).write(sums);
    // SAFETY: the PTX's entry has those parameters; it reads and writes below both lengths, each
    // sum in one thread, with barriers that all threads of a block meet. The block has the 256
    // threads that its shared memory is for.
    unsafe { launch.launch(&shape) }
}
