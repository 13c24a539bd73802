//! [`Layout2`] and [`Layout3`]: rows of elements in linear memory, for 2-D and 3-D copies.

use std::ops::Range;

use crate::error::{CopySide, LayoutError};
use cuda_rt_driver::{CopyExtent, Pitch};

/// Rows of elements in a buffer: a frame, a plane of a frame, or a region of one. All numbers are
/// in elements of the buffer.
///
/// ```text
///   offset    width
///      │   ◀────────▶
///      ▼   ┌────────┬──┐
///   ───────┤ row 0  │  │
///          │ row 1  │  │ height      the gap is neither read nor written
///          └────────┴──┘
///          ◀── stride ─▶
/// ```
///
/// The planes of an NV12 frame, and a region of its luma:
///
/// ```
/// use cuda_rt::Layout2;
///
/// let (width, height, stride) = (1920, 1080, 2048);
/// let luma = Layout2::packed(width, height).with_stride(stride);
/// let chroma = Layout2::packed(width, height / 2)
///     .with_stride(stride)
///     .at(stride * height);
/// let region = luma.region(960, 540, 64, 64);
/// assert_eq!((region.offset, region.stride), (540 * 2048 + 960, 2048));
/// assert_eq!(chroma.offset, 2048 * 1080);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout2 {
    /// Elements before the first row.
    pub offset: usize,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Elements from the start of a row to the start of the next: at least `width`.
    pub stride: usize,
}

impl Layout2 {
    /// Rows without gaps, from the start of the buffer.
    pub const fn packed(width: usize, height: usize) -> Self {
        Self {
            offset: 0,
            width,
            height,
            stride: width,
        }
    }

    /// The same rows, `stride` elements apart.
    pub const fn with_stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// The same rows, from the element `offset` of the buffer.
    pub const fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// The part of `width` columns from `x`, and of `height` rows from `y`.
    ///
    /// # Panics
    /// If the part reaches past the last column or row, or its offset is past the address space.
    #[track_caller]
    pub const fn region(self, x: usize, y: usize, width: usize, height: usize) -> Self {
        assert!(
            x <= self.width && width <= self.width - x,
            "the region reaches past the last column"
        );
        assert!(
            y <= self.height && height <= self.height - y,
            "the region reaches past the last row"
        );
        let start = match y.checked_mul(self.stride) {
            Some(rows) => match rows.checked_add(x) {
                Some(inside) => self.offset.checked_add(inside),
                None => None,
            },
            None => None,
        };
        match start {
            Some(offset) => Self {
                offset,
                width,
                height,
                stride: self.stride,
            },
            None => panic!("the region begins past the address space"),
        }
    }
}

/// Planes of rows of elements in a buffer: a volume, or a batch of frames. All numbers are in
/// elements of the buffer.
///
/// A region of four frames that lie one after another, each with 2 rows of padding:
///
/// ```
/// use cuda_rt::Layout3;
///
/// # cuda_rt::streams! { pub Copies; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let copies = gpu.stream::<Copies>()?;
/// let (width, height, frames) = (6, 4, 4);
/// let padded = Layout3::packed(width, height, frames).with_stride(8).with_plane_rows(6);
/// let elements: Vec<u32> = (0..8 * 6 * 4).collect();
/// let video = copies.alloc_from_slice(&elements)?;
/// let mut dense = copies.alloc_zeroed::<u32>(width * height * frames)?;
/// copies.copy_rows(&video, padded, &mut dense, Layout3::packed(width, height, frames))?;
/// let dense = copies.copy_to_vec(&dense)?;
/// assert_eq!(dense[..7], [0, 1, 2, 3, 4, 5, 8]); // without the gaps of the rows
/// assert_eq!(dense[width * height], 8 * 6); // the next frame begins after its padding
///
/// let third = padded.at(2 * 8 * 6); // the last frames begin 2 planes later
/// assert_eq!(third.offset, 96);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout3 {
    /// Elements before the first row.
    pub offset: usize,
    /// Elements of a row.
    pub width: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Planes.
    pub depth: usize,
    /// Elements from the start of a row to the start of the next: at least `width`.
    pub stride: usize,
    /// Rows from the start of a plane to the start of the next: at least `height`.
    pub plane_rows: usize,
}

impl Layout3 {
    /// Planes and rows without gaps, from the start of the buffer.
    pub const fn packed(width: usize, height: usize, depth: usize) -> Self {
        Self {
            offset: 0,
            width,
            height,
            depth,
            stride: width,
            plane_rows: height,
        }
    }

    /// The same rows, `stride` elements apart.
    pub const fn with_stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// The same planes, `plane_rows` rows apart.
    pub const fn with_plane_rows(self, plane_rows: usize) -> Self {
        Self { plane_rows, ..self }
    }

    /// The same planes, from the element `offset` of the buffer.
    pub const fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Width, height and depth.
    pub(crate) fn size(self) -> [usize; 3] {
        [self.width, self.height, self.depth]
    }

    /// The elements that a copy moves, if a buffer can have so many.
    pub(crate) fn elements(self) -> Option<usize> {
        let [width, height, depth] = self.size();
        // A product may overflow before a factor of 0.
        if self.size().contains(&0) {
            return Some(0);
        }
        width.checked_mul(height)?.checked_mul(depth)
    }

    /// The elements of a buffer of `len` elements from the first that a copy touches to the last.
    /// Empty if it touches none.
    pub(crate) fn within(self, len: usize, side: CopySide) -> Result<Range<usize>, LayoutError> {
        let Self {
            offset,
            width,
            height,
            depth,
            stride,
            plane_rows,
        } = self;
        if stride < width {
            return Err(LayoutError::Stride { side, stride, width });
        }
        if plane_rows < height {
            return Err(LayoutError::PlaneRows {
                side,
                plane_rows,
                height,
            });
        }
        if self.size().contains(&0) {
            return Ok(0..0);
        }
        let end = (depth - 1)
            .checked_mul(plane_rows)
            .and_then(|rows| rows.checked_add(height - 1))
            .and_then(|rows| rows.checked_mul(stride))
            .and_then(|rows| rows.checked_add(width))
            .and_then(|span| span.checked_add(offset))
            .ok_or(LayoutError::Overflow { side })?;
        if end > len {
            return Err(LayoutError::PastEnd { side, end, len });
        }
        Ok(offset..end)
    }

    /// The bytes that a copy of elements of this size moves. The layout must lie within a buffer,
    /// so no number overflows.
    pub(crate) fn extent(self, element_bytes: usize) -> CopyExtent {
        CopyExtent {
            width_bytes: self.width * element_bytes,
            height: self.height,
            depth: self.depth,
        }
    }

    /// The distances between the rows. The distances of a layout with one row or one plane do not
    /// matter, and CUDA refuses large ones, so they are the smallest.
    pub(crate) fn pitch(self, element_bytes: usize) -> Pitch {
        let one_row = self.height == 1 && self.depth == 1;
        let stride = if one_row { self.width } else { self.stride };
        let rows = if self.depth == 1 {
            self.height
        } else {
            self.plane_rows
        };
        Pitch {
            bytes: stride.saturating_mul(element_bytes),
            rows,
        }
    }
}

impl From<Layout2> for Layout3 {
    /// One plane.
    fn from(plane: Layout2) -> Self {
        Self {
            offset: plane.offset,
            width: plane.width,
            height: plane.height,
            depth: 1,
            stride: plane.stride,
            plane_rows: plane.height,
        }
    }
}
