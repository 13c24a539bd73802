//! The stand-in for cuBLAS on simulated devices: a plain function, enqueued like a kernel, so that
//! the device chooses when it runs.

use std::ffi::{c_int, c_void};

use cuda_rt::driver::{DeviceAddress, Driver, RawStream};
use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, ParameterKind};

use crate::bias_relu::word;
use crate::blas::BlasError;

// SAFETY: the PTX is empty. The module's only kernel is launched on simulated devices only, which
// load no PTX.
static MODULE: ModuleImage = unsafe { ModuleImage::new("stand-in", "") };

const READ: ParameterKind = ParameterKind::Read { element_bytes: 4 };
const WRITE: ParameterKind = ParameterKind::Write { element_bytes: 4 };

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

/// Enqueues C = A·B, with matrices as in [`crate::blas::Product`]. Stream-ordered.
///
/// # Safety
/// The driver belongs to a simulated device, and the stream is live. The matrices have this shape,
/// and no unordered access conflicts with the product's.
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
    // SAFETY: `SGEMM` has seven parameters of 8 bytes, and these are seven. The matrices are
    // ordered and have this shape, by this function's contract.
    unsafe { driver.launch(&SGEMM, &launch, &parameters, stream) }.map_err(|source| {
        BlasError::Runtime(cuda_rt::Error::Driver {
            during: "stand-in for cublasSgemm",
            source,
        })
    })
}

/// The product as a plain function, which the simulated device runs.
///
/// # Safety
/// The contract of [`Kernel::simulate`], for the parameters of `SGEMM`.
unsafe fn simulate(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: `SGEMM` has seven parameters, so there are seven pointers.
    let words = unsafe { parameters.cast::<[*const u64; 7]>().read() };
    // SAFETY: each pointer is to a parameter of 8 bytes.
    let [a, a_len, b, b_len, c, c_len, columns] = words.map(|word| unsafe { word.read() } as usize);
    // SAFETY: `sgemm` passes A's address and length; nothing writes A meanwhile. An address of a
    // simulated device is the host's address.
    let a = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<f32>(a), a_len) };
    // SAFETY: `sgemm` passes B's address and length; nothing writes B meanwhile.
    let b = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<f32>(b), b_len) };
    // SAFETY: `sgemm` passes C's address and length; nothing else uses C meanwhile.
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
