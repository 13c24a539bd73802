//! Triangular matrices: which half counts, and what its diagonal is.

/// The side on which the triangular matrix stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// A·X = B.
    Left,
    /// X·A = B.
    Right,
}

/// The half of a square matrix whose elements count. The other half is never read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Uplo {
    /// On the diagonal and below it.
    Lower,
    /// On the diagonal and above it.
    Upper,
}

/// The diagonal of a triangular matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Diagonal {
    /// The elements of the matrix.
    General,
    /// All ones; the elements are never read.
    Unit,
}

/// A triangular matrix: its half, and its diagonal. The half is that of the matrix as it is
/// described: of a [transposed](crate::Matrix::transposed) lower half it is the upper one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Triangle {
    /// The half that counts.
    pub uplo: Uplo,
    /// What its diagonal is.
    pub diagonal: Diagonal,
}

impl Triangle {
    /// The lower half, with its diagonal.
    pub const LOWER: Self = Self {
        uplo: Uplo::Lower,
        diagonal: Diagonal::General,
    };
    /// The upper half, with its diagonal.
    pub const UPPER: Self = Self {
        uplo: Uplo::Upper,
        diagonal: Diagonal::General,
    };

    /// The same half, with ones on the diagonal.
    pub const fn with_unit_diagonal(self) -> Self {
        Self {
            diagonal: Diagonal::Unit,
            ..self
        }
    }
}
