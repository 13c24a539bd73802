//! [`Matrix`] and [`MatrixMut`]: device memory, seen as a matrix or as a batch of matrices.

use std::fmt;

use cuda_rt_runtime::DeviceSlice;

use crate::error::{Operand, ShapeError};

/// The order in which the elements of a matrix stand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Row by row, as arrays of Rust and C stand in memory.
    RowMajor,
    /// Column by column, as in Fortran and in cuBLAS itself.
    ColumnMajor,
}

impl Layout {
    fn swapped(self) -> Self {
        match self {
            Self::RowMajor => Self::ColumnMajor,
            Self::ColumnMajor => Self::RowMajor,
        }
    }
}

/// Equal matrices in one piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) count: usize,
    pub(crate) stride: usize,
}

/// What the numbers of a matrix say about its memory. Nothing is checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) layout: Layout,
    pub(crate) leading: usize,
    pub(crate) batch: Option<Batch>,
}

/// The largest number that cuBLAS takes for a side, a leading dimension or a count.
pub(crate) const LARGEST: usize = i32::MAX as usize;

impl Shape {
    fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            layout: Layout::RowMajor,
            leading: columns,
            batch: None,
        }
    }

    /// Matrices that are stored row by row without gaps, perhaps in a batch of this count and
    /// stride.
    pub(crate) fn packed(rows: usize, columns: usize, batch: Option<(usize, usize)>) -> Self {
        Self {
            batch: batch.map(|(count, stride)| Batch { count, stride }),
            ..Self::new(rows, columns)
        }
    }

    /// A vector as a matrix of one column, without gaps.
    pub(crate) fn column(len: usize) -> Self {
        Self::new(len, 1).with_layout(Layout::ColumnMajor)
    }

    fn with_layout(self, layout: Layout) -> Self {
        let leading = match layout {
            Layout::RowMajor => self.columns,
            Layout::ColumnMajor => self.rows,
        };
        Self {
            layout,
            leading,
            ..self
        }
    }

    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            layout: self.layout.swapped(),
            ..self
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.batch.map_or(1, |batch| batch.count)
    }

    /// Whether there is no element.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0 || self.count() == 0
    }

    /// Elements that stand side by side: the length of a row, or of a column if the matrix is
    /// stored by columns.
    fn line(&self) -> usize {
        match self.layout {
            Layout::RowMajor => self.columns,
            Layout::ColumnMajor => self.rows,
        }
    }

    fn lines(&self) -> usize {
        match self.layout {
            Layout::RowMajor => self.rows,
            Layout::ColumnMajor => self.columns,
        }
    }

    /// Elements from the first of one matrix to behind its last. `None` if no memory has as many.
    fn span(&self) -> Option<usize> {
        self.span_in(1)
    }

    /// As [`span`](Self::span), if each line is read in units of that many elements.
    fn span_in(&self, unit: usize) -> Option<usize> {
        if self.line() == 0 || self.lines() == 0 {
            return Some(0);
        }
        // Most units are 1, and a division takes as long as all other checks together.
        let line = match unit {
            1 => self.line(),
            _ => self.line().checked_next_multiple_of(unit)?,
        };
        (self.lines() - 1).checked_mul(self.leading)?.checked_add(line)
    }

    /// As [`span_in`](Self::span_in), for all matrices of the batch.
    fn reach_in(&self, unit: usize) -> Option<usize> {
        let span = self.span_in(unit)?;
        match self.batch {
            _ if self.is_empty() => Some(0),
            None => Some(span),
            Some(batch) => (batch.count - 1).checked_mul(batch.stride)?.checked_add(span),
        }
    }

    /// Compares the shape with memory of `len` elements, and with what cuBLAS takes.
    pub(crate) fn check(&self, operand: Operand, len: usize) -> Result<(), ShapeError> {
        match self.is_one_within(len) {
            true => Ok(()),
            false => self.check_each(operand, len),
        }
    }

    /// Whether this is one matrix with elements, which passes [`check_each`](Self::check_each):
    /// most are.
    fn is_one_within(&self, len: usize) -> bool {
        let (line, lines) = (self.line(), self.lines());
        self.batch.is_none()
            && (line | lines | self.leading) <= LARGEST
            && line <= self.leading
            // Of 31 bits each, so that 64 bits hold the sum.
            && lines > 0
            && (lines as u64 - 1) * self.leading as u64 + line as u64 <= len as u64
    }

    /// As [`check`](Self::check), number by number, which finds what is wrong.
    fn check_each(&self, operand: Operand, len: usize) -> Result<(), ShapeError> {
        let numbers = [
            ("rows", self.rows),
            ("columns", self.columns),
            ("elements of leading dimension", self.leading),
            ("matrices", self.count()),
        ];
        if let Some((what, number)) = numbers.into_iter().find(|(_, number)| *number > LARGEST) {
            return Err(ShapeError::TooLarge {
                operand,
                what,
                number,
            });
        }
        if self.leading < self.line() {
            return Err(ShapeError::LeadingDimension {
                operand,
                leading: self.leading,
                least: self.line(),
                layout: self.layout,
            });
        }
        self.check_reach(operand, len, 1)
    }

    /// Whether memory of `len` elements holds the matrices, each line in units of that many
    /// elements.
    pub(crate) fn check_reach(&self, operand: Operand, len: usize, unit: usize) -> Result<(), ShapeError> {
        match self.reach_in(unit) {
            // A stride is a number of 64 bits with a sign.
            Some(reach) if reach <= len && self.stride() <= isize::MAX as usize => Ok(()),
            reach => Err(ShapeError::OutOfBounds {
                operand,
                reach,
                len,
                rows: self.rows,
                columns: self.columns,
                leading: self.leading,
                count: self.count(),
            }),
        }
    }

    /// As [`check`](Self::check), for a matrix that is written: no element belongs to two matrices
    /// of the batch. Two matrices that overlapped would be written at the same time.
    pub(crate) fn check_written(&self, operand: Operand, len: usize) -> Result<(), ShapeError> {
        self.check(operand, len)?;
        let Some(batch) = self.batch.filter(|batch| batch.count > 1 && !self.is_empty()) else {
            return Ok(());
        };
        // One behind the other, or side by side within the lines. No sum overflows: `check` has
        // computed larger ones.
        let behind = self.span().is_some_and(|span| batch.stride >= span);
        let beside = batch.stride >= self.line()
            && (batch.count - 1)
                .checked_mul(batch.stride)
                .and_then(|last| last.checked_add(self.line()))
                .is_some_and(|end| end <= self.leading);
        if behind || beside {
            return Ok(());
        }
        Err(ShapeError::Overlap {
            operand,
            stride: batch.stride,
            least: self.span(),
        })
    }

    /// The distance of the matrices of a batch; 0 if there is one matrix, which each product of a
    /// batch uses.
    pub(crate) fn stride(&self) -> usize {
        self.batch.map_or(0, |batch| batch.stride)
    }
}

/// Device memory as a matrix that is read: rows, columns, and where its elements stand.
///
/// [`new`](Self::new) makes a matrix that is stored row by row, without gaps; methods describe
/// other matrices. A description is compared with the memory when it is used, before anything is
/// enqueued.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt_cublas::{Blas, Layout, Matrix};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let memory = compute.alloc_from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
///
/// let rows = Matrix::new(&memory, 2, 3); // 1 2 3 / 4 5 6
/// let columns = Matrix::new(&memory, 2, 3).column_major(); // 1 3 5 / 2 4 6
/// let turned = rows.transposed(); // 1 4 / 2 5 / 3 6
/// let part = Matrix::new(&memory[1..], 2, 2).leading_dimension(3); // 2 3 / 5 6
/// assert_eq!((turned.rows(), turned.columns(), turned.layout()), (3, 2, Layout::ColumnMajor));
///
/// let blas = Blas::new(&compute)?;
/// let product = blas.multiply(columns, turned)?;
/// assert_eq!(compute.copy_to_vec(&product)?, [22.0, 49.0, 28.0, 64.0]);
/// let square = blas.multiply(part, part)?;
/// assert_eq!(compute.copy_to_vec(&square)?, [19.0, 24.0, 40.0, 51.0]);
/// let rows = Matrix::new(&memory, 1, 3).batch(2, 3); // two matrices of one row
/// let sums = blas.multiply(rows, Matrix::new(&memory[..3], 3, 1))?;
/// assert_eq!(compute.copy_to_vec(&sums)?, [14.0, 32.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Matrix<'a, T, P> {
    pub(crate) memory: &'a DeviceSlice<T, P>,
    pub(crate) shape: Shape,
}

/// Device memory as a matrix that is written, and perhaps read. As [`Matrix`].
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt_cublas::{Blas, Matrix, MatrixMut};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let a = compute.alloc_from_slice(&[1.0_f64, 2.0, 3.0, 4.0])?;
/// let mut c = compute.alloc_zeroed::<f64>(4)?;
///
/// // A·A, in the second column of a matrix of two rows that is stored row by row.
/// let (a, column) = (Matrix::new(&a, 2, 2), Matrix::new(&a[..2], 2, 1));
/// let second = MatrixMut::new(&mut c[1..], 2, 1).leading_dimension(2);
/// Blas::new(&compute)?.gemm(1.0, a, column, 0.0, second)?;
/// assert_eq!(compute.copy_to_vec(&c)?, [0.0, 5.0, 0.0, 11.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MatrixMut<'a, T, P> {
    pub(crate) memory: &'a mut DeviceSlice<T, P>,
    pub(crate) shape: Shape,
}

impl<T, P> Clone for Matrix<'_, T, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, P> Copy for Matrix<'_, T, P> {}

macro_rules! descriptions {
    ($name:ident, $($mutable:ident)?) => {
        impl<T, P> fmt::Debug for $name<'_, T, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("memory", &self.memory)
                    .field("shape", &self.shape)
                    .finish()
            }
        }

        impl<'a, T, P> $name<'a, T, P> {
            /// A matrix that is stored row by row, without gaps.
            pub fn new(memory: &'a $($mutable)? DeviceSlice<T, P>, rows: usize, columns: usize) -> Self {
                let shape = Shape::new(rows, columns);
                Self { memory, shape }
            }

            /// A matrix of the same rows and columns that is stored column by column, without gaps.
            pub fn column_major(mut self) -> Self {
                self.shape = self.shape.with_layout(Layout::ColumnMajor);
                self
            }

            /// The distance, in elements, from the start of a row to the start of the next row, or
            /// from column to column if the matrix is stored column by column.
            pub fn leading_dimension(mut self, elements: usize) -> Self {
                self.shape.leading = elements;
                self
            }

            /// The same elements, with rows and columns exchanged. Costs nothing: only the
            /// description changes.
            pub fn transposed(mut self) -> Self {
                self.shape = self.shape.transposed();
                self
            }

            /// A batch of `count` such matrices, each of which begins `stride` elements behind the
            /// one before. Matrices that are read may overlap.
            pub fn batch(mut self, count: usize, stride: usize) -> Self {
                self.shape.batch = Some(Batch { count, stride });
                self
            }

            /// The number of rows.
            pub fn rows(&self) -> usize {
                self.shape.rows
            }

            /// The number of columns.
            pub fn columns(&self) -> usize {
                self.shape.columns
            }

            /// The order of the elements in memory.
            pub fn layout(&self) -> Layout {
                self.shape.layout
            }
        }
    };
}

descriptions!(Matrix,);
descriptions!(MatrixMut, mut);

impl<T, P> MatrixMut<'_, T, P> {
    /// The same matrix, for a shorter time.
    pub fn reborrow(&mut self) -> MatrixMut<'_, T, P> {
        MatrixMut {
            memory: self.memory,
            shape: self.shape,
        }
    }

    /// The same matrix, to read.
    pub fn as_matrix(&self) -> Matrix<'_, T, P> {
        Matrix {
            memory: self.memory,
            shape: self.shape,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rows: usize, columns: usize, leading: usize, batch: Option<(usize, usize)>) -> Shape {
        Shape {
            leading,
            batch: batch.map(|(count, stride)| Batch { count, stride }),
            ..Shape::new(rows, columns)
        }
    }

    /// The indices of all elements of a batch, by matrix.
    fn elements(shape: &Shape) -> Vec<Vec<usize>> {
        let first = |index: usize| index * shape.stride();
        let lines = |index: usize| (0..shape.lines()).map(move |line| first(index) + line * shape.leading);
        (0..shape.count())
            .map(|index| {
                lines(index)
                    .flat_map(|start| start..start + shape.line())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn one_matrix_of_large_numbers_is_checked_as_each_number() {
        let numbers = [1, 2, LARGEST - 1, LARGEST, LARGEST + 1, usize::MAX];
        let lengths = [LARGEST, LARGEST * 2, LARGEST * LARGEST, usize::MAX];
        let mut accepted = 0;
        for code in 0..6_usize.pow(3) {
            let [rows, columns, leading] = [1, 6, 36].map(|place| numbers[code / place % 6]);
            for len in lengths.into_iter().flat_map(|len| [len - 1, len]) {
                let shape = shape(rows, columns, leading, None);
                let checked = shape.check(Operand::A, len);
                assert_eq!(checked, shape.check_each(Operand::A, len), "{shape:?} in {len}");
                accepted += usize::from(checked.is_ok());
            }
        }
        assert!(accepted > 100, "{accepted}");
    }

    /// All small shapes: what is accepted is in bounds, and written elements are written once.
    #[test]
    fn accepted_shapes_stay_in_bounds_and_write_no_element_twice() {
        let (mut accepted, mut refused) = (0, 0);
        for code in 0..4_usize.pow(5) {
            let digit = |at: u32| code / 4_usize.pow(at) % 4;
            for len in [0, 1, 5, 9, 14] {
                for turned in [false, true] {
                    let batch = (digit(3) > 0).then(|| (digit(3), digit(4) * 3));
                    let mut shape = shape(digit(0), digit(1), digit(2) * 2, batch);
                    if turned {
                        shape = shape.transposed();
                    }
                    let all = elements(&shape);
                    let flat: Vec<usize> = all.concat();
                    assert_eq!(shape.check(Operand::A, len), shape.check_each(Operand::A, len));
                    if shape.check(Operand::A, len).is_ok() {
                        assert!(flat.iter().all(|at| *at < len), "{shape:?} in {len}");
                    }
                    if shape.check_written(Operand::C, len).is_ok() {
                        accepted += 1;
                        let mut once = flat.clone();
                        once.sort_unstable();
                        once.dedup();
                        assert_eq!(once.len(), flat.len(), "{shape:?}");
                        assert!(flat.iter().all(|at| *at < len), "{shape:?} in {len}");
                    } else {
                        refused += 1;
                    }
                }
            }
        }
        assert!(accepted > 1000 && refused > 1000, "{accepted} {refused}");
    }

    #[test]
    fn matrices_side_by_side_in_longer_lines_may_be_written() {
        // Two matrices of 4 rows and 3 columns, beside each other in rows of 6.
        let beside = shape(4, 3, 6, Some((2, 3)));
        assert_eq!(beside.check_written(Operand::C, 24), Ok(()));
        let overlapping = shape(4, 3, 6, Some((2, 2)));
        assert!(matches!(
            overlapping.check_written(Operand::C, 24),
            Err(ShapeError::Overlap { stride: 2, .. })
        ));
        let beyond_the_line = shape(4, 3, 6, Some((3, 3)));
        assert!(beyond_the_line.check_written(Operand::C, 99).is_err());
    }

    #[test]
    fn numbers_whose_product_overflows_are_refused() {
        let most = i32::MAX as usize;
        for (shape, what) in [
            (shape(most, most, most, Some((most, usize::MAX))), "bounds"),
            (shape(most, most, most, None), "bounds"),
            (shape(1, 1, 1, Some((2, usize::MAX))), "bounds"),
            (shape(most + 1, 1, 1, None), "large"),
            (shape(1, 1, most + 1, None), "large"),
            (shape(1, 1, 1, Some((most + 1, 0))), "large"),
        ] {
            let error = shape.check(Operand::B, usize::MAX / 8).unwrap_err();
            let is_right = match error {
                ShapeError::OutOfBounds { .. } => what == "bounds",
                ShapeError::TooLarge { .. } => what == "large",
                _ => false,
            };
            assert!(is_right, "{error}");
        }
        // A stride that is never used is compared too: it would not fit cuBLAS' number.
        assert!(
            shape(1, 1, 1, Some((1, usize::MAX)))
                .check(Operand::B, 9)
                .is_err()
        );
    }
}
