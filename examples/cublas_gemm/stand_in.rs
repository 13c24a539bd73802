//! What stands in for cuBLAS on the simulated device: a plain function, enqueued as a kernel is, so
//! that it runs when the device sees fit.

use std::ffi::{c_int, c_void};

use cuda_rt::driver::{DeviceAddress, Driver, RawStream};
use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};

use crate::blas::BlasError;

// SAFETY: empty, and its one kernel is launched on the simulated device only, which loads no PTX.
static MODULE: ModuleImage = unsafe { ModuleImage::new("stand-in", "") };

const READ: ParameterKind = ParameterKind::Read { element_bytes: 4 };
const WRITE: ParameterKind = ParameterKind::Write { element_bytes: 4 };

const fn word(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: 8,
        align_bytes: 8,
        kind,
    }
}

static SGEMM: Kernel = Kernel {
    name: "stand-in for cublasSgemm",
    symbol: c"sgemm",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[
        word(READ),
        word(ParameterKind::Length),
        word(READ),
        word(ParameterKind::Length),
        word(WRITE),
        word(ParameterKind::Length),
        word(ParameterKind::Scalar),
    ],
    layout: &[],
    simulate,
    cache: KernelCache::new(),
};

/// Enqueues C = A·B, as [`crate::blas::Product`] says.
///
/// # Safety
/// The driver is a simulated device's and the stream is live; the matrices have that shape, and are
/// not in conflict with any unordered access.
pub(crate) unsafe fn sgemm(
    driver: &dyn Driver,
    [a, b, c]: [DeviceAddress; 3],
    shape: [c_int; 3],
    stream: RawStream,
) -> Result<(), BlasError> {
    let [rows, columns, inner] = shape.map(|side| side as u64);
    let words = [
        a.0,
        rows * inner,
        b.0,
        inner * columns,
        c.0,
        rows * columns,
        columns,
    ];
    let parameters = words
        .each_ref()
        .map(|word| std::ptr::from_ref(word).cast::<c_void>());
    let launch = LaunchShape {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        extent: Extent {
            x: rows * columns,
            y: 1,
            z: 1,
        },
    };
    // SAFETY: seven words; the caller answers for the matrices.
    unsafe { driver.launch(&SGEMM, &launch, &parameters, stream) }.map_err(|source| {
        BlasError::Runtime(cuda_rt::Error::Driver {
            during: "stand-in for cublasSgemm",
            source,
        })
    })
}

/// # Safety
/// As [`Kernel::simulate`]: seven words, and matrices that no one else uses.
unsafe fn simulate(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: seven pointers.
    let words = unsafe { parameters.cast::<[*const u64; 7]>().read() };
    // SAFETY: each to a word.
    let [a, a_len, b, b_len, c, c_len, columns] = words.map(|word| unsafe { word.read() } as usize);
    // SAFETY: the caller's; the addresses of a simulated device are those of the host.
    let a = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<f32>(a), a_len) };
    // SAFETY: as above.
    let b = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<f32>(b), b_len) };
    // SAFETY: as above, and written by no one else.
    let c = unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut::<f32>(c), c_len) };
    let inner = b.len() / columns;
    for (row, sums) in a.chunks_exact(inner).zip(c.chunks_exact_mut(columns)) {
        sums.fill(0.0);
        for (x, ys) in row.iter().zip(b.chunks_exact(columns)) {
            for (sum, y) in sums.iter_mut().zip(ys) {
                *sum += x * y;
            }
        }
    }
}
