use crate::element::Element;

/// A row-major image that a stencil reads. [`Image::new`] checks the length once, so that reads
/// with clamped coordinates need no check.
///
/// The compiler does not move the checks of `input[y * width + x]` out of a stencil's loops, and
/// does not unroll loops that can panic. (A bilateral filter of radius 3, for sm_90, needs 39
/// registers with checks, and 32 with this type.)
///
/// ```
/// use device_std::Image;
///
/// let image = Image::new(&[1u8, 2, 3, 4, 5, 6], 3, 2);
/// assert_eq!(image.clamped(1, 0), 2);
/// assert_eq!(image.clamped(-4, 9), 4);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Image<'a, T> {
    // IMAGE-1. 1 ≤ width, height ≤ LONGEST_SIDE. width * height ≤ min(pixels.len(), u32::MAX).
    pixels: &'a [T],
    width: i32,
    height: i32,
}

/// The limit keeps coordinates near an edge, plus a stencil's radius, inside `i32`.
const LONGEST_SIDE: u32 = 1 << 30;

/// One row of an [`Image`].
#[derive(Clone, Copy, Debug)]
pub struct Row<'a, T> {
    // IMAGE-ROW-1. 1 ≤ width ≤ LONGEST_SIDE, and start + width ≤ min(pixels.len(), u32::MAX).
    pixels: &'a [T],
    start: u32,
    width: i32,
}

impl<'a, T: Element> Image<'a, T> {
    /// Views the first `width * height` elements of `pixels`.
    ///
    /// It does not return an `Option`: the choice between two values would hide from LLVM where the
    /// pixels come from, and LLVM would no longer use the read-only cache.
    ///
    /// # Panics
    /// If `pixels` is shorter than the image, if a side is 0 or above 2^30 pixels, or if the area
    /// does not fit 32 bits.
    #[inline(always)]
    pub fn new(pixels: &'a [T], width: u32, height: u32) -> Self {
        let sides = 1..=LONGEST_SIDE;
        assert!(
            sides.contains(&width) && sides.contains(&height),
            "a side of the image is 0 or over 2^30 pixels"
        );
        // The product cannot wrap: it is at most 2^60.
        let area = width as u64 * height as u64;
        assert!(area <= u32::MAX as u64, "the image has 2^32 pixels or more");
        assert!(area <= pixels.len() as u64, "the input is shorter than the image");
        Self {
            pixels,
            width: width as i32,
            height: height as i32,
        }
    }

    /// The number of pixels in a row.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width as usize
    }

    /// The number of rows.
    #[inline(always)]
    pub fn height(&self) -> usize {
        self.height as usize
    }

    /// Row `y`; for a `y` outside the image, the nearest row.
    ///
    /// ```
    /// use device_std::Image;
    ///
    /// let image = Image::new(&[1u8, 2, 3, 4, 5, 6], 3, 2);
    /// assert_eq!((image.width(), image.height()), (3, 2));
    /// let row = image.row_clamped(9); // the last row
    /// assert_eq!([row.clamped(-1), row.clamped(1), row.clamped(7)], [4, 5, 6]);
    /// ```
    #[inline(always)]
    pub fn row_clamped(&self, y: i32) -> Row<'a, T> {
        // `clamp` would check its limits again.
        let y = y.max(0).min(self.height - 1);
        // IMAGE-1: `y * width` is at most the area, which fits 32 bits.
        Row {
            pixels: self.pixels,
            start: y as u32 * self.width as u32,
            width: self.width,
        }
    }

    /// The pixel at (`x`, `y`); outside the image, the nearest pixel. So edges are repeated
    /// outwards.
    #[inline(always)]
    pub fn clamped(&self, x: i32, y: i32) -> T {
        self.row_clamped(y).clamped(x)
    }
}

impl<T: Element> Row<'_, T> {
    /// The pixel at `x`; for an `x` outside the row, the nearest pixel.
    #[inline(always)]
    pub fn clamped(&self, x: i32) -> T {
        let x = x.max(0).min(self.width - 1);
        // SAFETY: IMAGE-ROW-1: 0 ≤ x < width, so start + x lies inside `pixels`.
        unsafe { *self.pixels.get_unchecked((self.start + x as u32) as usize) }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::Image;

    #[test]
    fn coordinates_outside_repeat_the_edge() {
        let image = Image::new(&[1u8, 2, 3, 4, 5, 6], 3, 2);
        assert_eq!(image.clamped(-5, -5), 1);
        assert_eq!(image.clamped(i32::MAX, i32::MIN), 3);
        assert_eq!(image.clamped(1, 1), 5);
        assert_eq!(image.clamped(i32::MIN, i32::MAX), 4);
    }

    #[test]
    fn images_must_fit_their_memory_and_32_bits() {
        let fits = |len: usize, width, height| {
            let pixels = vec![0u8; len];
            std::panic::catch_unwind(|| Image::new(&pixels, width, height).clamped(0, 0)).is_ok()
        };
        assert!(fits(6, 3, 2) && fits(7, 3, 2));
        assert!(!fits(5, 3, 2));
        assert!(!fits(0, 0, 0) && !fits(6, 0, 2) && !fits(6, 2, 0));
        assert!(!fits(6, (1 << 30) + 1, 1));
        // 2^16 · 2^16 wraps to 0 in 32 bits.
        assert!(!fits(6, 1 << 16, 1 << 16));
    }
}
