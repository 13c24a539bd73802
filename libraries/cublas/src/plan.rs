//! Checked arguments of operations, as cuBLAS counts them: column-major, with 31 bits.
//!
//! cuBLAS stores each matrix column by column. Read so, a matrix that is stored row by row is its
//! transpose. So a product whose output is stored row by row is computed as Cᵀ = Bᵀ·Aᵀ, with the
//! factors exchanged, and a factor is transposed if its layout differs from the output's.

use std::ffi::{c_int, c_longlong};

use cuda_rt_runtime::kernel::{Extent, LaunchShape};

use crate::error::{Operand, ShapeError, equal, mismatch};
use crate::ffi;
use crate::matrix::{LARGEST, Layout, Shape};
use crate::triangle::{Diagonal, Side, Triangle, Uplo};

const TRANSPOSE: &str = "`.transposed()` exchanges the rows and columns of a matrix";
const OUTPUT: &str = "the product has the rows of A and the columns of B";
const SAME_COUNT: &str = "give both `.batch(count, ..)` the same count, or pass one matrix for all products";
const SIDES: &str = "`Side::Left` solves A·X = B, and `Side::Right` X·A = B";

/// One factor of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FactorPlan {
    pub(crate) transposed: bool,
    pub(crate) leading: usize,
    pub(crate) stride: usize,
}

impl FactorPlan {
    pub(crate) fn operation(&self) -> ffi::cublasOperation_t {
        match self.transposed {
            false => ffi::CUBLAS_OP_N,
            true => ffi::CUBLAS_OP_T,
        }
    }
}

/// A product as cuBLAS takes it.
///
/// # Invariants
/// PLAN-1. The shapes that it was made of fit their memory, as [`Shape::check`] and
/// [`Shape::check_written`] say; with the factors exchanged if `swapped`, all elements that the
/// product reads and writes are those of the shapes. Every number but a stride is at most 2³¹-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProductPlan {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Whether the second matrix of the caller is cuBLAS' first.
    pub(crate) swapped: bool,
    pub(crate) first: FactorPlan,
    pub(crate) second: FactorPlan,
    pub(crate) leading: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// A number that a check has compared with [`LARGEST`], as cuBLAS takes it.
pub(crate) fn int(number: usize) -> c_int {
    c_int::try_from(number).expect("checked: at most 31 bits")
}

pub(crate) fn long(number: usize) -> c_longlong {
    c_longlong::try_from(number).expect("checked: at most 63 bits")
}

impl ProductPlan {
    /// Checks C = A·B for matrices in memory of these lengths. `None` if the output is empty.
    pub(crate) fn new(
        (a, a_len): (&Shape, usize),
        (b, b_len): (&Shape, usize),
        (c, c_len): (&Shape, usize),
    ) -> Result<Option<Self>, ShapeError> {
        a.check(Operand::A, a_len)?;
        b.check(Operand::B, b_len)?;
        c.check_written(Operand::C, c_len)?;
        if a.columns != b.rows || a.rows != c.rows || b.columns != c.columns {
            return Err(other_sides(a, b, c));
        }
        let is_other = |factor: &Shape| factor.batch.is_some_and(|batch| batch.count != c.count());
        if is_other(a) || is_other(b) {
            return Err(other_counts(a, b, c));
        }
        if c.is_empty() {
            return Ok(None);
        }
        if a.columns == 0 {
            return Err(ShapeError::NothingToMultiply);
        }
        let swapped = c.layout == Layout::RowMajor;
        let factor = |shape: &Shape| FactorPlan {
            transposed: shape.layout != c.layout,
            leading: shape.leading,
            stride: shape.stride(),
        };
        let (m, n) = match swapped {
            false => (c.rows, c.columns),
            true => (c.columns, c.rows),
        };
        let (first, second) = match swapped {
            false => (factor(a), factor(b)),
            true => (factor(b), factor(a)),
        };
        Ok(Some(Self {
            m,
            n,
            k: a.columns,
            swapped,
            first,
            second,
            leading: c.leading,
            stride: c.stride(),
            count: c.count(),
        }))
    }

    /// The numbers for the simulated device.
    pub(crate) fn words(&self, alpha: u64, beta: u64) -> [u64; 14] {
        [
            self.m as u64,
            self.n as u64,
            self.k as u64,
            u64::from(self.first.transposed),
            self.first.leading as u64,
            self.first.stride as u64,
            u64::from(self.second.transposed),
            self.second.leading as u64,
            self.second.stride as u64,
            self.leading as u64,
            self.stride as u64,
            self.count as u64,
            alpha,
            beta,
        ]
    }
}

/// A triangular system as cuBLAS takes it.
///
/// # Invariants
/// PLAN-2. As PLAN-1, for the triangle and the right sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TriangularPlan {
    pub(crate) is_right: bool,
    pub(crate) is_upper: bool,
    pub(crate) transposed: bool,
    pub(crate) unit_diagonal: bool,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) leading_a: usize,
    pub(crate) leading_b: usize,
}

impl TriangularPlan {
    /// Checks A·X = B or X·A = B. `None` if B is empty.
    pub(crate) fn new(
        side: Side,
        triangle: Triangle,
        (a, a_len): (&Shape, usize),
        (b, b_len): (&Shape, usize),
    ) -> Result<Option<Self>, ShapeError> {
        a.check(Operand::A, a_len)?;
        b.check_written(Operand::B, b_len)?;
        for (operand, shape) in [(Operand::A, a), (Operand::B, b)] {
            if shape.batch.is_some() {
                return Err(ShapeError::IsBatch { operand });
            }
        }
        if a.rows != a.columns {
            return Err(ShapeError::NotSquare {
                operand: Operand::A,
                rows: a.rows,
                columns: a.columns,
            });
        }
        let both = [(Operand::A, a), (Operand::B, b)];
        let in_b = match side {
            Side::Left => ("rows of B", b.rows),
            Side::Right => ("columns of B", b.columns),
        };
        equal(("rows of A", a.rows), in_b, &both, SIDES)?;
        if b.is_empty() {
            return Ok(None);
        }
        // Row by row, cuBLAS sees Bᵀ: A·X = B is Xᵀ·Aᵀ = Bᵀ.
        let is_row_major = b.layout == Layout::RowMajor;
        let a_is_row_major = a.layout == Layout::RowMajor;
        let (m, n) = match is_row_major {
            false => (b.rows, b.columns),
            true => (b.columns, b.rows),
        };
        Ok(Some(Self {
            is_right: (side == Side::Right) != is_row_major,
            is_upper: (triangle.uplo == Uplo::Upper) != a_is_row_major,
            transposed: is_row_major != a_is_row_major,
            unit_diagonal: triangle.diagonal == Diagonal::Unit,
            m,
            n,
            leading_a: a.leading,
            leading_b: b.leading,
        }))
    }

    pub(crate) fn words(&self, alpha: u64) -> [u64; 9] {
        [
            u64::from(self.is_right),
            u64::from(self.is_upper),
            u64::from(self.transposed),
            u64::from(self.unit_diagonal),
            self.m as u64,
            self.n as u64,
            self.leading_a as u64,
            self.leading_b as u64,
            alpha,
        ]
    }
}

/// The error of a product whose sides do not fit each other. The inner dimension comes first: if B
/// is to be transposed, it says so, and C is right.
#[cold]
fn other_sides(a: &Shape, b: &Shape, c: &Shape) -> ShapeError {
    let all = [(Operand::A, a), (Operand::B, b), (Operand::C, c)];
    let (inner, inner_of_b) = (("columns of A", a.columns), ("rows of B", b.rows));
    let (rows, rows_of_c) = (("rows of A", a.rows), ("rows of C", c.rows));
    let (columns, columns_of_c) = (("columns of B", b.columns), ("columns of C", c.columns));
    if a.columns != b.rows {
        mismatch(inner, inner_of_b, &all[..2], TRANSPOSE)
    } else if a.rows != c.rows {
        mismatch(rows, rows_of_c, &all, OUTPUT)
    } else {
        mismatch(columns, columns_of_c, &all, OUTPUT)
    }
}

/// The error of batches of different counts. Two factors are compared first: the program may have
/// passed no output.
#[cold]
fn other_counts(a: &Shape, b: &Shape, c: &Shape) -> ShapeError {
    let [in_a, in_b, in_c] = [
        ("matrices of the batch A", a.count()),
        ("matrices of the batch B", b.count()),
        ("matrices of C", c.count()),
    ];
    let (left, right) = match (a.batch, b.batch) {
        (Some(of_a), Some(of_b)) if of_a.count != of_b.count => (in_a, in_b),
        (Some(of_a), _) if of_a.count != c.count() => (in_a, in_c),
        _ => (in_b, in_c),
    };
    mismatch(left, right, &[], SAME_COUNT)
}

/// The length of a vector, which cuBLAS counts with 31 bits.
pub(crate) fn vector(operand: Operand, len: usize) -> Result<usize, ShapeError> {
    match len <= LARGEST {
        true => Ok(len),
        false => Err(ShapeError::TooLarge {
            operand,
            what: "elements",
            number: len,
        }),
    }
}

/// The shape of a launch on a simulated device that is modelled as this many threads.
pub(crate) fn simulated_shape(threads: [u64; 3]) -> LaunchShape {
    let [x, y, z] = threads.map(|number| number.max(1));
    LaunchShape {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        extent: Extent { x, y, z },
    }
}
