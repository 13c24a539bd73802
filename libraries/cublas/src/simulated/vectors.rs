//! Operations of vectors.

use std::ffi::c_void;
use std::ops::{Add, Div, Mul, Sub};

use cuda_rt_runtime::kernel::LaunchShape;

use super::{arguments, numbers, slice, slice_mut};

/// A float of these functions.
pub(super) trait Float:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Into<f64> + 'static
{
    fn of_bits(bits: u64) -> Self;
    fn rounded(value: f64) -> Self;
}

impl Float for f32 {
    fn of_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    fn rounded(value: f64) -> Self {
        value as Self
    }
}

impl Float for f64 {
    fn of_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    fn rounded(value: f64) -> Self {
        value
    }
}

/// y = alpha·x + y.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `AXPY`.
pub(super) unsafe fn axpy<T: Float>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are five parameters.
    let [x, x_len, y, y_len, alpha] = unsafe { arguments::<5>(parameters) };
    // SAFETY: the last parameter is a number.
    let [alpha] = unsafe { numbers::<1>(alpha) }.map(T::of_bits);
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    let x = unsafe { slice::<T>(x, x_len) };
    // SAFETY: as above.
    let y = unsafe { slice_mut::<T>(y, y_len) };
    for (y, x) in y.iter_mut().zip(x) {
        *y = alpha * *x + *y;
    }
}

/// x = alpha·x.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `SCAL`.
pub(super) unsafe fn scal<T: Float>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are three parameters.
    let [x, len, alpha] = unsafe { arguments::<3>(parameters) };
    // SAFETY: the last parameter is a number.
    let [alpha] = unsafe { numbers::<1>(alpha) }.map(T::of_bits);
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    for x in unsafe { slice_mut::<T>(x, len) } {
        *x = alpha * *x;
    }
}

/// The sum of x·y.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `DOT`.
pub(super) unsafe fn dot<T: Float>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are six parameters.
    let [x, x_len, y, y_len, result, result_len] = unsafe { arguments::<6>(parameters) };
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    let x = unsafe { slice::<T>(x, x_len) };
    // SAFETY: as above.
    let y = unsafe { slice::<T>(y, y_len) };
    let sum = x.iter().zip(y).map(|(x, y)| (*x).into() * (*y).into()).sum();
    // SAFETY: as above.
    unsafe { slice_mut::<T>(result, result_len) }.fill(T::rounded(sum));
}

/// The square root of the sum of x·x, without an overflow in between.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `NRM2`.
pub(super) unsafe fn nrm2<T: Float>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are four parameters.
    let [x, len, result, result_len] = unsafe { arguments::<4>(parameters) };
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    let x = unsafe { slice::<T>(x, len) };
    let largest = x.iter().map(|x| (*x).into().abs()).fold(0.0, f64::max);
    let norm = match largest > 0.0 && largest.is_finite() {
        false => x.iter().map(|x| (*x).into().abs()).sum(),
        true => {
            let squares: f64 = x.iter().map(|x| ((*x).into() / largest).powi(2)).sum();
            largest * squares.sqrt()
        }
    };
    // SAFETY: as above.
    unsafe { slice_mut::<T>(result, result_len) }.fill(T::rounded(norm));
}
