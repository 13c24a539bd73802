//! [`LayoutError`]: rows that a copy cannot read or write.

use std::error::Error as StdError;
use std::fmt;

/// A side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySide {
    /// The side that is read.
    Source,
    /// The side that is written.
    Destination,
}

impl fmt::Display for CopySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Destination => "destination",
        })
    }
}

/// The rows of a copy do not fit: [`Layout2`](crate::Layout2) and [`Layout3`](crate::Layout3). All
/// numbers are in elements and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// The two sides have different sizes.
    Size {
        /// Width, height and depth of the source.
        source: [usize; 3],
        /// Width, height and depth of the destination.
        destination: [usize; 3],
    },
    /// Rows would overlap.
    Stride {
        /// The side.
        side: CopySide,
        /// Its stride.
        stride: usize,
        /// Its width.
        width: usize,
    },
    /// Planes would overlap.
    PlaneRows {
        /// The side.
        side: CopySide,
        /// Its rows from plane to plane.
        plane_rows: usize,
        /// Its height.
        height: usize,
    },
    /// The rows reach past the end of the memory.
    PastEnd {
        /// The side.
        side: CopySide,
        /// The element after the last that the copy would touch.
        end: usize,
        /// The elements of the memory.
        len: usize,
    },
    /// The rows reach past the end of any memory.
    Overflow {
        /// The side.
        side: CopySide,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size {
                source: [width, height, depth],
                destination: [to_width, to_height, to_depth],
            } => write!(
                f,
                "the source has {width}x{height}x{depth} elements, the destination {to_width}x{to_height}x{to_depth}; \
                 give both layouts one size"
            ),
            Self::Stride { side, stride, width } => write!(
                f,
                "the stride of the {side}, {stride}, is less than its width, {width}: its rows overlap"
            ),
            Self::PlaneRows {
                side,
                plane_rows,
                height,
            } => write!(
                f,
                "the planes of the {side} are {plane_rows} rows apart, less than their height, {height}: they overlap"
            ),
            Self::PastEnd { side, end, len } => write!(
                f,
                "the rows of the {side} end at element {end}, but its memory has {len}; check offset, stride and height"
            ),
            Self::Overflow { side } => write!(
                f,
                "the rows of the {side} end past the address space; check offset, stride and height"
            ),
        }
    }
}

impl StdError for LayoutError {}
