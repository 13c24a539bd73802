//! Triangular systems, by substitution.

use std::ffi::c_void;

use cuda_rt_runtime::kernel::LaunchShape;

use super::vectors::Float;
use super::{arguments, numbers, slice, slice_mut};

/// The function of the simulated device.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `TRIANGULAR`.
pub(super) unsafe fn simulate<T: Float>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are five parameters.
    let [a, a_len, b, b_len, words] = unsafe { arguments::<5>(parameters) };
    // SAFETY: the last parameter has nine numbers.
    let words = unsafe { numbers::<9>(words) };
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    let a = unsafe { slice::<T>(a, a_len) };
    // SAFETY: as above; a shared and a unique borrow do not overlap.
    let b = unsafe { slice_mut::<T>(b, b_len) };
    let [is_right, is_upper, transposed, unit, m, n, lda, ldb, alpha] = words;
    let [m, n, lda, ldb] = [m, n, lda, ldb].map(|number| number as usize);
    let alpha = T::of_bits(alpha);
    // Of Xᵀ·Aᵀ = Bᵀ each column is a row of B: on the right, A is transposed once more.
    let turned = (transposed != 0) != (is_right != 0);
    let is_lower = (is_upper == 0) != turned;
    let element = |row: usize, column: usize| match turned {
        false => a[row + column * lda],
        true => a[column + row * lda],
    };
    let (size, systems) = if is_right == 0 { (m, n) } else { (n, m) };
    let place = |row: usize, system: usize| match is_right {
        0 => row + system * ldb,
        _ => system + row * ldb,
    };
    for system in 0..systems {
        for step in 0..size {
            let row = if is_lower { step } else { size - 1 - step };
            let solved = if is_lower { 0..row } else { row + 1..size };
            let mut value = alpha * b[place(row, system)];
            for column in solved {
                value = value - element(row, column) * b[place(column, system)];
            }
            if unit == 0 {
                value = value / element(row, row);
            }
            b[place(row, system)] = value;
        }
    }
}
