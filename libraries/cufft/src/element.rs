//! The types of elements that cuFFT transforms.

use std::ffi::c_int;

use cuda_rt_runtime::Element;
use cuda_rt_runtime::kernel::Kernel;
use num_complex::Complex;

use crate::ffi::{self, Cufft, cufftHandle, cufftType};
#[cfg(feature = "simulator")]
use crate::simulated;

/// The parts of the elements that cuFFT transforms: `f32` and `f64`.
///
/// # Safety
/// Sealed: the functions and numbers below are those of the type.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::{DeviceSlice, StreamTag, WriteBy};
/// use cuda_rt_cufft::{Complex, Plan, Real, Result};
///
/// fn there_and_back<R: Real, S: StreamTag, P: WriteBy<S>>(
///     plan: &Plan<Complex<R>, Complex<R>, S>,
///     signal: &mut DeviceSlice<Complex<R>, P>,
/// ) -> Result<()> {
///     plan.forward_in_place(signal)?;
///     plan.inverse_in_place(signal)
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let mut signal = compute.alloc_from_slice(&[Complex::new(1.0_f64, 2.0); 3])?;
/// let plan = Plan::new(&compute, cuda_rt_cufft::Shape::line(3))?;
/// there_and_back(&plan, &mut signal)?;
/// let error = compute.copy_to_vec(&signal)?[0] - Complex::new(3.0, 6.0);
/// assert!(error.norm() < 1e-14); // three times the signal
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "cuFFT transforms `f32` and `f64`, and complex numbers of them, not `{Self}`",
    label = "neither `f32` nor `f64`"
)]
pub unsafe trait Real: Element {
    #[doc(hidden)]
    const FUNCTIONS: Functions<Self>;
}

/// Elements of which a [`Plan`](crate::Plan) makes elements `O`.
///
/// | read | written | cuFFT's name |
/// |---|---|---|
/// | `Complex<f32>`, `Complex<f64>` | the same | `CUFFT_C2C`, `CUFFT_Z2Z` |
/// | `f32`, `f64` | `Complex<f32>`, `Complex<f64>` | `CUFFT_R2C`, `CUFFT_D2Z` |
/// | `Complex<f32>`, `Complex<f64>` | `f32`, `f64` | `CUFFT_C2R`, `CUFFT_Z2D` |
///
/// # Safety
/// Sealed: `KIND` is the transform of these types.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::{DeviceBuffer, Element, StreamTag};
/// use cuda_rt_cufft::{Complex, Plan, Result, Shape, Transform};
///
/// /// Memory for the output of a plan.
/// fn output<I: Transform<O>, O: Element, S: StreamTag>(
///     stream: &cuda_rt::Stream<S>,
///     plan: &Plan<I, O, S>,
/// ) -> Result<DeviceBuffer<O, S>> {
///     Ok(stream.alloc_zeroed(plan.output_len())?)
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let plan = Plan::<f64, Complex<f64>, _>::new(&compute, Shape::plane(4, 6))?;
/// assert_eq!(output(&compute, &plan)?.len(), 4 * (6 / 2 + 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "cuFFT has no transform from `{Self}` to `{O}`",
    label = "no transform of such elements",
    note = "transforms are `Complex<R>` to `Complex<R>`, `R` to `Complex<R>`, and `Complex<R>` to `R`, where `R` is `f32` or `f64`"
)]
pub unsafe trait Transform<O>: Element {
    /// `f32` or `f64`.
    type Real: Real;
    #[doc(hidden)]
    const KIND: TransformKind;
}

/// What is read and written. Only this crate makes and reads it.
pub struct TransformKind(pub(crate) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ComplexToComplex,
    RealToComplex,
    ComplexToReal,
}

// SAFETY: both are complex.
unsafe impl<R: Real> Transform<Complex<R>> for Complex<R> {
    type Real = R;
    const KIND: TransformKind = TransformKind(Kind::ComplexToComplex);
}
// SAFETY: real numbers are read, and complex ones written.
unsafe impl<R: Real> Transform<Complex<R>> for R {
    type Real = R;
    const KIND: TransformKind = TransformKind(Kind::RealToComplex);
}
// SAFETY: complex numbers are read, and real ones written.
unsafe impl<R: Real> Transform<R> for Complex<R> {
    type Real = R;
    const KIND: TransformKind = TransformKind(Kind::ComplexToReal);
}

type During = &'static str;
type Done = crate::Result<()>;

/// The functions of cuFFT for one type, and of the simulated device.
pub struct Functions<R: 'static> {
    pub(crate) complex: cufftType,
    pub(crate) real_to_complex: cufftType,
    pub(crate) complex_to_real: cufftType,
    pub(crate) transform:
        unsafe fn(&Cufft, During, cufftHandle, *mut Complex<R>, *mut Complex<R>, c_int) -> Done,
    pub(crate) forward: unsafe fn(&Cufft, During, cufftHandle, *mut R, *mut Complex<R>) -> Done,
    pub(crate) inverse: unsafe fn(&Cufft, During, cufftHandle, *mut Complex<R>, *mut R) -> Done,
    pub(crate) kernels: Option<fn() -> &'static Kernels>,
}

impl<R> Functions<R> {
    /// cuFFT's number for the transforms of this kind.
    pub(crate) fn number(&self, kind: Kind) -> cufftType {
        match kind {
            Kind::ComplexToComplex => self.complex,
            Kind::RealToComplex => self.real_to_complex,
            Kind::ComplexToReal => self.complex_to_real,
        }
    }
}

/// The functions of the simulated device for one type.
pub(crate) struct Kernels {
    pub(crate) transform: Kernel,
    pub(crate) in_place: Kernel,
    pub(crate) forward: Kernel,
    pub(crate) inverse: Kernel,
}

macro_rules! real {
    ($($type:ident $complex:ident $real_to_complex:ident $complex_to_real:ident
        $transform:ident $forward:ident $inverse:ident $kernels:ident;)*) => { $(
        // SAFETY: the numbers are the type's own in `cufft.h`. Each function takes elements of this
        // type, and does what its field's name says.
        unsafe impl Real for $type {
            const FUNCTIONS: Functions<Self> = Functions {
                complex: ffi::$complex,
                real_to_complex: ffi::$real_to_complex,
                complex_to_real: ffi::$complex_to_real,
                transform: Cufft::$transform,
                forward: Cufft::$forward,
                inverse: Cufft::$inverse,
                #[cfg(feature = "simulator")]
                kernels: Some(|| &simulated::$kernels),
                #[cfg(not(feature = "simulator"))]
                kernels: None,
            };
        }
    )* };
}

real! {
    f32 CUFFT_C2C CUFFT_R2C CUFFT_C2R cufftExecC2C cufftExecR2C cufftExecC2R KERNELS_F32;
    f64 CUFFT_Z2Z CUFFT_D2Z CUFFT_Z2D cufftExecZ2Z cufftExecD2Z cufftExecZ2D KERNELS_F64;
}
