//! The types of elements that cuBLAS multiplies.

use cuda_rt_runtime::Element;
use cuda_rt_runtime::kernel::Kernel;

use crate::ffi::{self, Cublas};
#[cfg(feature = "simulator")]
use crate::simulated;

/// How precisely products of `f32` are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// As `f32` (`CUBLAS_COMPUTE_32F`).
    #[default]
    Full,
    /// Factors are rounded to 10 bits behind the point, and sums are `f32`
    /// (`CUBLAS_COMPUTE_32F_FAST_TF32`): several times as fast on GPUs since Ampere. The simulated
    /// device computes as with `Full`.
    Tf32,
}

/// Elements whose matrices have a product with elements `C`.
///
/// | factors | products | sums |
/// |---|---|---|
/// | `f32` | `f32` | in `f32`, or [`Tf32`](Precision::Tf32) |
/// | `f64` | `f64` | in `f64` |
/// | `half::f16` | `half::f16`, `f32` | in `f32` (feature `half`) |
/// | `half::bf16` | `half::bf16`, `f32` | in `f32` (feature `half`) |
/// | `i8` | `i32` | in `i32`, which wraps |
///
/// For matrices of bytes, cuBLAS lacks some layouts on some GPUs
/// ([`BlasError::Status`](crate::BlasError::Status), `CUBLAS_STATUS_NOT_SUPPORTED`).
///
/// # Safety
/// Sealed: the numbers of cuBLAS below are those of the types.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::{DeviceBuffer, ReadBy, StreamTag};
/// use cuda_rt_cublas::{Blas, Matrix, Multiply, Result};
///
/// /// The square of a matrix, of any type.
/// fn square<T: Multiply<T>, S: StreamTag, P: ReadBy<S>>(
///     blas: &Blas<S>,
///     a: Matrix<'_, T, P>,
/// ) -> Result<DeviceBuffer<T, S>> {
///     blas.multiply(a, a)
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let a = compute.alloc_from_slice(&[1.0_f64, 1.0, 1.0, 0.0])?;
/// let squared = square(&Blas::new(&compute)?, Matrix::new(&a, 2, 2))?;
/// assert_eq!(compute.copy_to_vec(&squared)?, [2.0, 1.0, 1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "cuBLAS multiplies no matrices of `{Self}` into a matrix of `{C}`",
    label = "no product of such elements",
    note = "products are `f32` of `f32`, `f64` of `f64`, `i32` of `i8`, and with the feature `half` \
            `f16` or `f32` of `f16`, `bf16` or `f32` of `bf16`"
)]
pub unsafe trait Multiply<C: Element = Self>: Element {
    /// The type of the factors `alpha` and `beta`.
    type Scalar: Factor;
    /// What cuBLAS and the simulated device call this product.
    #[doc(hidden)]
    const PRODUCT: ProductType;
}

/// The type of a factor: `f32`, `f64` or `i32`. The simulated device gets its bits as 64 bits.
///
/// # Safety
/// Sealed: `ZERO` and `ONE` are the numbers.
pub unsafe trait Factor: Element + PartialEq {
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;
    #[doc(hidden)]
    const BITS: fn(Self) -> u64;
}

// SAFETY: 0 and 1.
unsafe impl Factor for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const BITS: fn(Self) -> u64 = |value| u64::from(value.to_bits());
}
// SAFETY: 0 and 1.
unsafe impl Factor for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const BITS: fn(Self) -> u64 = |value| value.to_bits();
}
// SAFETY: 0 and 1.
unsafe impl Factor for i32 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    const BITS: fn(Self) -> u64 = |value| u64::from(value.cast_unsigned());
}

/// A product, as cuBLAS and the simulated device know it. Only this crate makes and reads it.
pub struct ProductType {
    /// The factors' type.
    pub(crate) factor: ffi::cudaDataType,
    /// The product's type.
    pub(crate) product: ffi::cudaDataType,
    pub(crate) compute: ffi::cublasComputeType_t,
    /// With [`Precision::Tf32`].
    pub(crate) fast: ffi::cublasComputeType_t,
    /// Whether cuBLAS demands rows and addresses of multiples of 4 bytes.
    pub(crate) in_fours: bool,
    /// Products that one modelled thread computes.
    pub(crate) products_a_thread: u64,
    /// The function of the simulated device.
    pub(crate) kernel: Option<fn() -> &'static Kernel>,
}

macro_rules! multiply {
    ($($(#[$attribute:meta])* $a:ty => $c:ty, $scalar:ty, $factor:ident $product:ident $compute:ident $fast:ident
        $in_fours:literal $products:literal $kernel:ident;)*) => { $(
        $(#[$attribute])*
        // SAFETY: the numbers are the types' own in `library_types.h`, and sums have the type of
        // the scalars in the table of `cublasGemmEx` in cuBLAS' documentation.
        unsafe impl Multiply<$c> for $a {
            type Scalar = $scalar;
            const PRODUCT: ProductType = ProductType {
                factor: ffi::$factor,
                product: ffi::$product,
                compute: ffi::$compute,
                fast: ffi::$fast,
                in_fours: $in_fours,
                products_a_thread: $products,
                #[cfg(feature = "simulator")]
                kernel: Some(|| &simulated::$kernel),
                #[cfg(not(feature = "simulator"))]
                kernel: None,
            };
        }
    )* };
}

// A modelled thread takes 0.001 ns. An H200 multiplies about as many numbers in that time.
multiply! {
    f32 => f32, f32, CUDA_R_32F CUDA_R_32F CUBLAS_COMPUTE_32F CUBLAS_COMPUTE_32F_FAST_TF32 false 32 GEMM_F32;
    f64 => f64, f64, CUDA_R_64F CUDA_R_64F CUBLAS_COMPUTE_64F CUBLAS_COMPUTE_64F false 32 GEMM_F64;
    i8 => i32, i32, CUDA_R_8I CUDA_R_32I CUBLAS_COMPUTE_32I CUBLAS_COMPUTE_32I true 1024 GEMM_I8;
    #[cfg(feature = "half")]
    half::f16 => half::f16, f32, CUDA_R_16F CUDA_R_16F CUBLAS_COMPUTE_32F CUBLAS_COMPUTE_32F false 512 GEMM_F16;
    #[cfg(feature = "half")]
    half::f16 => f32, f32, CUDA_R_16F CUDA_R_32F CUBLAS_COMPUTE_32F CUBLAS_COMPUTE_32F false 512 GEMM_F16_F32;
    #[cfg(feature = "half")]
    half::bf16 => half::bf16, f32, CUDA_R_16BF CUDA_R_16BF CUBLAS_COMPUTE_32F CUBLAS_COMPUTE_32F false 512 GEMM_BF16;
    #[cfg(feature = "half")]
    half::bf16 => f32, f32, CUDA_R_16BF CUDA_R_32F CUBLAS_COMPUTE_32F CUBLAS_COMPUTE_32F false 512 GEMM_BF16_F32;
}

/// Elements of vectors, of triangular systems, and of products with vectors: `f32` and `f64`.
///
/// # Safety
/// Sealed: the functions below are those of the type.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::{DeviceSlice, StreamTag, WriteBy};
/// use cuda_rt_cublas::{Blas, Real, Result};
///
/// fn doubled<T: Real, S: StreamTag, P: WriteBy<S>>(
///     blas: &Blas<S>,
///     x: &mut DeviceSlice<T, P>,
///     two: T,
/// ) -> Result<()> {
///     blas.scal(two, x)
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let mut x = compute.alloc_from_slice(&[1.0_f32, -4.0])?;
/// doubled(&Blas::new(&compute)?, &mut x, 2.0)?;
/// assert_eq!(compute.copy_to_vec(&x)?, [2.0, -8.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "cuBLAS does this for `f32` and `f64`, not for `{Self}`",
    label = "neither `f32` nor `f64`"
)]
pub unsafe trait Real: Multiply<Self, Scalar = Self> + Factor {
    #[doc(hidden)]
    const FUNCTIONS: Functions<Self>;
}

type Int = std::ffi::c_int;
type Handle = ffi::cublasHandle_t;
type During = &'static str;
type Done = crate::Result<()>;

/// The functions of cuBLAS for one type, and of the simulated device.
pub struct Functions<T: 'static> {
    pub(crate) gemv: unsafe fn(
        &Cublas,
        During,
        Handle,
        Int,
        Int,
        Int,
        *const T,
        *const T,
        Int,
        *const T,
        Int,
        *const T,
        *mut T,
        Int,
    ) -> Done,
    pub(crate) trsm: unsafe fn(
        &Cublas,
        During,
        Handle,
        Int,
        Int,
        Int,
        Int,
        Int,
        Int,
        *const T,
        *const T,
        Int,
        *mut T,
        Int,
    ) -> Done,
    pub(crate) axpy: unsafe fn(&Cublas, During, Handle, Int, *const T, *const T, Int, *mut T, Int) -> Done,
    pub(crate) scal: unsafe fn(&Cublas, During, Handle, Int, *const T, *mut T, Int) -> Done,
    pub(crate) dot: unsafe fn(&Cublas, During, Handle, Int, *const T, Int, *const T, Int, *mut T) -> Done,
    pub(crate) nrm2: unsafe fn(&Cublas, During, Handle, Int, *const T, Int, *mut T) -> Done,
    pub(crate) kernels: Option<fn() -> &'static RealKernels>,
}

/// The functions of the simulated device for one type.
pub(crate) struct RealKernels {
    pub(crate) trsm: Kernel,
    pub(crate) axpy: Kernel,
    pub(crate) scal: Kernel,
    pub(crate) dot: Kernel,
    pub(crate) nrm2: Kernel,
}

macro_rules! real {
    ($($type:ident $gemv:ident $trsm:ident $axpy:ident $scal:ident $dot:ident $nrm2:ident $kernels:ident;)*) => { $(
        // SAFETY: each function takes elements of this type, and does what its field's name says.
        unsafe impl Real for $type {
            const FUNCTIONS: Functions<Self> = Functions {
                gemv: Cublas::$gemv,
                trsm: Cublas::$trsm,
                axpy: Cublas::$axpy,
                scal: Cublas::$scal,
                dot: Cublas::$dot,
                nrm2: Cublas::$nrm2,
                #[cfg(feature = "simulator")]
                kernels: Some(|| &simulated::$kernels),
                #[cfg(not(feature = "simulator"))]
                kernels: None,
            };
        }
    )* };
}

real! {
    f32 cublasSgemv_v2 cublasStrsm_v2 cublasSaxpy_v2 cublasSscal_v2 cublasSdot_v2 cublasSnrm2_v2 REAL_F32;
    f64 cublasDgemv_v2 cublasDtrsm_v2 cublasDaxpy_v2 cublasDscal_v2 cublasDdot_v2 cublasDnrm2_v2 REAL_F64;
}
