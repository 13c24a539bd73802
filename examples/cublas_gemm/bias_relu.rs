//! A kernel that `#[kernel]` did not make: PTX written by hand, and what it does as a plain
//! function.

use std::ffi::c_void;

use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use cuda_rt::{DeviceSlice, Error, ReadBy, Stream, StreamTag, WriteBy};

// SAFETY: its one kernel is launched through `foreign_kernel` only, below.
static MODULE: ModuleImage = unsafe { ModuleImage::new("bias_relu", include_str!("bias_relu.ptx")) };

const fn word(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: 8,
        align_bytes: 8,
        kind,
    }
}

/// Parameters as in the PTX: bias and its length, which is that of a row, and the matrix and its
/// length.
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

/// Threads of a block.
const BLOCK: u32 = 128;

/// Adds `bias` to each row of `matrix`, and raises what is below 0 to 0.
///
/// # Panics
/// If `bias` is empty, or the matrix has more elements than one grid has threads.
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
    // SAFETY: the PTX has that entry with those parameters. A thread reads and writes element `i`
    // of the matrix alone, if there is one, and reads element `i % columns` of `columns` of the
    // bias, which is not 0.
    unsafe { launch.launch(&shape) }
}

/// # Safety
/// As [`Kernel::simulate`]: four words, and memory that no one else uses.
unsafe fn simulate(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: four pointers.
    let words = unsafe { parameters.cast::<[*const u64; 4]>().read() };
    // SAFETY: each to a word.
    let [bias, columns, matrix, len] = words.map(|word| unsafe { word.read() } as usize);
    // SAFETY: the caller's; the addresses of a simulated device are those of the host.
    let bias = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<f32>(bias), columns) };
    let matrix = std::ptr::with_exposed_provenance_mut::<f32>(matrix);
    // SAFETY: as above, and written by no one else.
    let matrix = unsafe { std::slice::from_raw_parts_mut(matrix, len) };
    for row in matrix.chunks_mut(columns) {
        for (element, bias) in row.iter_mut().zip(bias) {
            *element = (*element + bias).max(0.0);
        }
    }
}
