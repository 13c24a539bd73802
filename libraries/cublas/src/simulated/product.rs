//! Products of matrices, by the crate `matrixmultiply`. Its functions take any strides.

use std::ffi::c_void;

use cuda_rt_runtime::kernel::LaunchShape;

use super::{arguments, memory, numbers};

/// A matrix of a batch, as distances in elements.
#[derive(Clone, Copy)]
struct Places {
    row: usize,
    column: usize,
    batch: usize,
}

impl Places {
    /// A matrix that is stored column by column, and perhaps transposed.
    fn new(transposed: u64, leading: u64, batch: u64) -> Self {
        let (row, column) = match transposed {
            0 => (1, leading as usize),
            _ => (leading as usize, 1),
        };
        Self {
            row,
            column,
            batch: batch as usize,
        }
    }
}

/// A product of a batch: C = alpha·A·B + beta·C.
///
/// # Invariants
/// SIMULATED-PRODUCT-1. For each `index` below `count`, the elements at `index · batch + i · row +
/// j · column` lie in their memory, for all rows `i` and columns `j` of each matrix: PLAN-1.
pub(crate) struct Product {
    m: usize,
    n: usize,
    k: usize,
    a: Places,
    b: Places,
    c: Places,
    count: usize,
    alpha: u64,
    beta: u64,
}

/// Elements that can be multiplied into elements `C`.
///
/// # Safety
/// `multiply` reads and writes only the elements of the product.
pub(crate) unsafe trait Factors<C>: Sized {
    /// Computes matrix `index` of the batch.
    ///
    /// # Safety
    /// The pointers are to the first elements of the memory of SIMULATED-PRODUCT-1. The factors are
    /// initialised, and the output is if `beta` is not 0. Nothing else uses the output meanwhile.
    unsafe fn multiply(product: &Product, a: *const Self, b: *const Self, c: *mut C);
}

/// The function of the simulated device.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `PRODUCT`.
pub(super) unsafe fn simulate<A: Factors<C>, C>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are seven parameters.
    let [a, _, b, _, c, _, words] = unsafe { arguments::<7>(parameters) };
    // SAFETY: the last parameter has 14 numbers.
    let words = unsafe { numbers::<14>(words) };
    let [m, n, k, ta, lda, sa, tb, ldb, sb, ldc, sc, count, alpha, beta] = words;
    let product = Product {
        m: m as usize,
        n: n as usize,
        k: k as usize,
        a: Places::new(ta, lda, sa),
        b: Places::new(tb, ldb, sb),
        c: Places::new(0, ldc, sc),
        count: count as usize,
        alpha,
        beta,
    };
    // SAFETY: the parameter is an address.
    let a = unsafe { memory::<A>(a) };
    // SAFETY: as above.
    let b = unsafe { memory::<A>(b) };
    // SAFETY: as above.
    let c = unsafe { memory::<C>(c) };
    for index in 0..product.count {
        let (a, b, c) = (
            a.wrapping_add(index * product.a.batch),
            b.wrapping_add(index * product.b.batch),
            c.wrapping_add(index * product.c.batch),
        );
        // SAFETY: SIMULATED-PRODUCT-1. The launch's memory is initialised and used by nothing else
        // now, by this function's contract.
        unsafe { A::multiply(&product, a, b, c) };
    }
}

macro_rules! direct {
    ($type:ty, $function:ident, $from_bits:expr) => {
        // SAFETY: the function of `matrixmultiply` uses the elements at these distances only.
        unsafe impl Factors<$type> for $type {
            unsafe fn multiply(product: &Product, a: *const Self, b: *const Self, c: *mut Self) {
                let Product { m, n, k, .. } = *product;
                let at = |places: Places| (places.row as isize, places.column as isize);
                let ((ra, ca), (rb, cb), (rc, cc)) = (at(product.a), at(product.b), at(product.c));
                let (alpha, beta): ($type, $type) = ($from_bits(product.alpha), $from_bits(product.beta));
                // SAFETY: the matrices lie in memory by this function's contract. Where beta is 0,
                // the output is not read.
                unsafe { matrixmultiply::$function(m, k, n, alpha, a, ra, ca, b, rb, cb, beta, c, rc, cc) };
            }
        }
    };
}

direct!(f32, sgemm, |bits: u64| f32::from_bits(bits as u32));
direct!(f64, dgemm, f64::from_bits);

/// Copies a matrix of `rows` and `columns` into a vector, column by column.
///
/// # Safety
/// The elements lie in initialised memory that nothing writes meanwhile.
unsafe fn packed<A: Copy, W>(
    start: *const A,
    places: Places,
    (rows, columns): (usize, usize),
    widen: impl Fn(A) -> W,
) -> Vec<W> {
    let mut packed = Vec::with_capacity(rows * columns);
    for column in 0..columns {
        for row in 0..rows {
            let at = start.wrapping_add(row * places.row + column * places.column);
            // SAFETY: this function's contract.
            packed.push(widen(unsafe { at.read() }));
        }
    }
    packed
}

/// Computes with copies of the factors as wider numbers, and rounds once.
macro_rules! widened {
    ($factor:ty => $output:ty, $wide:ty, $function:ident, $widen:expr, $finish:expr) => {
        // SAFETY: elements are read and written one by one, at the product's places.
        unsafe impl Factors<$output> for $factor {
            unsafe fn multiply(product: &Product, a: *const Self, b: *const Self, c: *mut $output) {
                let Product { m, n, k, .. } = *product;
                // SAFETY: this function's contract.
                let a = unsafe { packed(a, product.a, (m, k), $widen) };
                // SAFETY: this function's contract.
                let b = unsafe { packed(b, product.b, (k, n), $widen) };
                let mut sums: Vec<$wide> = vec![0.0; m * n];
                let (lda, ldb) = (m as isize, k as isize);
                // SAFETY: the vectors have `m · k`, `k · n` and `m · n` elements, packed by
                // columns.
                unsafe {
                    matrixmultiply::$function(
                        m,
                        k,
                        n,
                        1.0,
                        a.as_ptr(),
                        1,
                        lda,
                        b.as_ptr(),
                        1,
                        ldb,
                        0.0,
                        sums.as_mut_ptr(),
                        1,
                        lda,
                    )
                };
                for column in 0..n {
                    for row in 0..m {
                        let at = c.wrapping_add(row * product.c.row + column * product.c.column);
                        let before = || {
                            // SAFETY: this function's contract. It is called if beta is not 0.
                            unsafe { at.read() }
                        };
                        let value = $finish(sums[row + column * m], product.alpha, product.beta, &before);
                        // SAFETY: this function's contract.
                        unsafe { at.write(value) };
                    }
                }
            }
        }
    };
}

#[cfg(feature = "half")]
fn scaled(sum: f32, alpha: u64, beta: u64, before: &dyn Fn() -> f32) -> f32 {
    let (alpha, beta) = (f32::from_bits(alpha as u32), f32::from_bits(beta as u32));
    match beta == 0.0 {
        true => alpha * sum,
        false => alpha * sum + beta * before(),
    }
}

/// Sums of products of bytes are exact in `f64`: they stay below 2⁴⁶. What does not fit 32 bits
/// wraps.
fn wrapped(sum: f64, alpha: u64, beta: u64, before: &dyn Fn() -> i32) -> i32 {
    let (alpha, beta) = (alpha as i32, beta as i32);
    let scaled = (sum as i64 as i32).wrapping_mul(alpha);
    match beta {
        0 => scaled,
        beta => scaled.wrapping_add(before().wrapping_mul(beta)),
    }
}

widened!(i8 => i32, f64, dgemm, f64::from, wrapped);

#[cfg(feature = "half")]
mod halves {
    use half::{bf16, f16};

    use super::*;

    macro_rules! halves {
        ($($half:ident)*) => { $(
            widened!($half => f32, f32, sgemm, f32::from, scaled);
            widened!($half => $half, f32, sgemm, f32::from, |sum, alpha, beta, before: &dyn Fn() -> $half| {
                $half::from_f32(scaled(sum, alpha, beta, &|| before().into()))
            });
        )* };
    }

    halves!(f16 bf16);
}
