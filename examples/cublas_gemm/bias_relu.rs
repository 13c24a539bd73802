//! A foreign kernel: PTX written by hand, described to cuda-rt, with a plain function for the
//! simulated device.

use std::ffi::c_void;

use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use cuda_rt::{DeviceSlice, Error, ReadBy, Stream, StreamTag, WriteBy};

// SAFETY: the module's only kernel is launched through `foreign_kernel` below, which states what
// the PTX does. No `#[kernel]` function names this module.
static MODULE: ModuleImage = unsafe { ModuleImage::new("bias_relu", include_str!("bias_relu.ptx")) };

/// A parameter of 8 bytes.
pub(crate) const fn word(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: 8,
        align_bytes: 8,
        kind,
    }
}

/// The kernel's description. Its parameters are those of the PTX: the bias and its length, which is
/// a row's length, then the matrix and its length.
static BIAS_RELU: Kernel = Kernel {
    name: "bias_relu",
    symbol: c"bias_relu",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[
        word(ParameterKind::Read { element_bytes: 4 }),
        word(ParameterKind::Length),
        word(ParameterKind::Write { element_bytes: 4 }),
        word(ParameterKind::Length),
    ],
    layout: &[],
    simulate,
    cache: KernelCache::new(),
};

/// Number of threads in a block.
const BLOCK: u32 = 128;

/// Adds `bias` to each row of `matrix`, and raises elements below 0 to 0. Stream-ordered.
///
/// # Panics
/// If `bias` is empty, or if the matrix has more elements than a grid has threads.
pub(crate) fn launch<S: StreamTag + ReadBy<S> + WriteBy<S>>(
    stream: &Stream<S>,
    bias: &DeviceSlice<f32, S>,
    matrix: &mut DeviceSlice<f32, S>,
) -> Result<(), Error> {
    assert!(!bias.is_empty(), "a row of no elements");
    let threads = matrix.len() as u64;
    let blocks = i32::try_from(threads.div_ceil(u64::from(BLOCK))).expect("at most 2^31 - 1 blocks");
    let shape = LaunchShape {
        grid: [blocks as u32, 1, 1],
        block: [BLOCK, 1, 1],
        shared_bytes: 0,
        extent: Extent {
            x: threads,
            y: 1,
            z: 1,
        },
    };
    let launch = stream.foreign_kernel(&BIAS_RELU).read(bias).write(matrix);
    // SAFETY: the PTX has this entry with these parameters. Thread `i` reads and writes only
    // element `i` of the matrix, if the matrix has it. It reads element `i % columns` of the bias,
    // where `columns` is the bias's length, and not 0.
    unsafe { launch.launch(&shape) }
}

/// The kernel as a plain function, for the simulated device.
///
/// # Safety
/// The contract of [`Kernel::simulate`], for the parameters of `BIAS_RELU`.
unsafe fn simulate(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: `BIAS_RELU` has four parameters, so there are four pointers.
    let words = unsafe { parameters.cast::<[*const u64; 4]>().read() };
    // SAFETY: each pointer is to a parameter of 8 bytes, as `word` describes it.
    let [bias, columns, matrix, len] = words.map(|word| unsafe { word.read() } as usize);
    // SAFETY: the launch borrows `bias`, of `columns` elements, which nothing writes meanwhile. An
    // address of a simulated device is the host's address.
    let bias = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<f32>(bias), columns) };
    let matrix = std::ptr::with_exposed_provenance_mut::<f32>(matrix);
    // SAFETY: the launch borrows the matrix, of `len` elements, mutably: nothing else uses it
    // meanwhile.
    let matrix = unsafe { std::slice::from_raw_parts_mut(matrix, len) };
    for row in matrix.chunks_mut(columns) {
        for (element, bias) in row.iter_mut().zip(bias) {
            *element = (*element + bias).max(0.0);
        }
    }
}
