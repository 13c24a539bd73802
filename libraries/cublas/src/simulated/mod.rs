//! The same operations on simulated devices: plain functions, enqueued like kernels. So the device
//! chooses when they run, the checker sees what they read and write, and their times are modelled.

mod product;
mod triangular;
mod vectors;

use std::ffi::c_void;
use std::marker::PhantomData;

use cuda_rt_runtime::kernel::{Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};

use crate::element::RealKernels;
use product::Factors;

// SAFETY: the PTX is empty. Kernels of the module are launched on simulated devices only, which
// load no PTX.
static MODULE: ModuleImage = unsafe { ModuleImage::new("cuBLAS on simulated devices", "") };

type Simulate = unsafe fn(&LaunchShape, *const *const c_void);

const fn word(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: 8,
        align_bytes: 8,
        kind,
    }
}

const fn read<T>() -> Parameter {
    word(ParameterKind::Read {
        element_bytes: size_of::<T>(),
    })
}

const fn write<T>() -> Parameter {
    word(ParameterKind::Write {
        element_bytes: size_of::<T>(),
    })
}

const LENGTH: Parameter = word(ParameterKind::Length);

const fn words<const N: usize>() -> Parameter {
    Parameter {
        size_bytes: 8 * N,
        align_bytes: 8,
        kind: ParameterKind::Scalar,
    }
}

/// Parameters of functions with elements of these types.
struct Parameters<A, C>(PhantomData<(A, C)>);

impl<A: 'static, C: 'static> Parameters<A, C> {
    const PRODUCT: &[Parameter] = &[
        read::<A>(),
        LENGTH,
        read::<A>(),
        LENGTH,
        write::<C>(),
        LENGTH,
        words::<14>(),
    ];
    const TRIANGULAR: &[Parameter] = &[read::<A>(), LENGTH, write::<C>(), LENGTH, words::<9>()];
    const AXPY: &[Parameter] = &[read::<A>(), LENGTH, write::<C>(), LENGTH, words::<1>()];
    const SCAL: &[Parameter] = &[write::<C>(), LENGTH, words::<1>()];
    const DOT: &[Parameter] = &[read::<A>(), LENGTH, read::<A>(), LENGTH, write::<C>(), LENGTH];
    const NRM2: &[Parameter] = &[read::<A>(), LENGTH, write::<C>(), LENGTH];
}

const fn function(name: &'static str, parameters: &'static [Parameter], simulate: Simulate) -> Kernel {
    Kernel {
        name,
        symbol: c"simulated",
        file: file!(),
        line: line!(),
        module: &MODULE,
        parameters,
        layout: &[],
        simulate,
        cache: KernelCache::new(),
    }
}

const fn product_of<A: Factors<C> + 'static, C: 'static>(name: &'static str) -> Kernel {
    function(name, Parameters::<A, C>::PRODUCT, product::simulate::<A, C>)
}

pub(crate) static GEMM_F32: Kernel = product_of::<f32, f32>("cublasGemmEx (f32)");
pub(crate) static GEMM_F64: Kernel = product_of::<f64, f64>("cublasGemmEx (f64)");
pub(crate) static GEMM_I8: Kernel = product_of::<i8, i32>("cublasGemmEx (i8)");
#[cfg(feature = "half")]
pub(crate) static GEMM_F16: Kernel = product_of::<half::f16, half::f16>("cublasGemmEx (f16)");
#[cfg(feature = "half")]
pub(crate) static GEMM_F16_F32: Kernel = product_of::<half::f16, f32>("cublasGemmEx (f16 to f32)");
#[cfg(feature = "half")]
pub(crate) static GEMM_BF16: Kernel = product_of::<half::bf16, half::bf16>("cublasGemmEx (bf16)");
#[cfg(feature = "half")]
pub(crate) static GEMM_BF16_F32: Kernel = product_of::<half::bf16, f32>("cublasGemmEx (bf16 to f32)");

macro_rules! real_kernels {
    ($($name:ident: $type:ident, $trsm:literal $axpy:literal $scal:literal $dot:literal $nrm2:literal;)*) => { $(
        pub(crate) static $name: RealKernels = RealKernels {
            trsm: function($trsm, Parameters::<$type, $type>::TRIANGULAR, triangular::simulate::<$type>),
            axpy: function($axpy, Parameters::<$type, $type>::AXPY, vectors::axpy::<$type>),
            scal: function($scal, Parameters::<$type, $type>::SCAL, vectors::scal::<$type>),
            dot: function($dot, Parameters::<$type, $type>::DOT, vectors::dot::<$type>),
            nrm2: function($nrm2, Parameters::<$type, $type>::NRM2, vectors::nrm2::<$type>),
        };
    )* };
}

real_kernels! {
    REAL_F32: f32, "cublasStrsm" "cublasSaxpy" "cublasSscal" "cublasSdot" "cublasSnrm2";
    REAL_F64: f64, "cublasDtrsm" "cublasDaxpy" "cublasDscal" "cublasDdot" "cublasDnrm2";
}

/// The arguments of a simulated launch.
///
/// # Safety
/// `parameters` has `N` pointers.
unsafe fn arguments<const N: usize>(parameters: *const *const c_void) -> [*const c_void; N] {
    // SAFETY: this function's contract.
    unsafe { parameters.cast::<[*const c_void; N]>().read() }
}

/// The memory of a slice among the arguments. On simulated devices an address is the host's.
///
/// # Safety
/// `argument` points to an address.
unsafe fn memory<T>(argument: *const c_void) -> *mut T {
    // SAFETY: this function's contract.
    let address = unsafe { argument.cast::<u64>().read() };
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Numbers among the arguments.
///
/// # Safety
/// `argument` points to `N` numbers.
unsafe fn numbers<const N: usize>(argument: *const c_void) -> [u64; N] {
    // SAFETY: this function's contract.
    unsafe { argument.cast::<[u64; N]>().read() }
}

/// A slice among the arguments.
///
/// # Safety
/// The arguments are the address of a slice and its length, and the slice is initialised. Nothing
/// writes it for `'a`.
unsafe fn slice<'a, T>(address: *const c_void, len: *const c_void) -> &'a [T] {
    // SAFETY: this function's contract.
    let start = unsafe { memory::<T>(address) };
    // SAFETY: this function's contract.
    let [len] = unsafe { numbers::<1>(len) };
    // SAFETY: this function's contract.
    unsafe { std::slice::from_raw_parts(start, len as usize) }
}

/// As [`slice`], to write.
///
/// # Safety
/// As for [`slice`], and nothing else uses the slice for `'a`.
unsafe fn slice_mut<'a, T>(address: *const c_void, len: *const c_void) -> &'a mut [T] {
    // SAFETY: this function's contract.
    let start = unsafe { memory::<T>(address) };
    // SAFETY: this function's contract.
    let [len] = unsafe { numbers::<1>(len) };
    // SAFETY: this function's contract.
    unsafe { std::slice::from_raw_parts_mut(start, len as usize) }
}
