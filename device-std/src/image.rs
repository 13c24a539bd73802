use crate::element::Element;

/// A row-major image that a stencil reads: its length is checked once, so that reads with clamped coordinates need no check.
///
/// The compiler does not hoist the checks of `input[y * width + x]` out of a stencil's loops, and does not unroll loops
/// that can panic. (Bilateral filter, radius 3, for sm_90: 384 instructions a pixel with checks, 332 through this.)
#[derive(Clone, Copy, Debug)]
pub struct Image<'a, T> {
    // Invariant: 1 ≤ width, height ≤ LONGEST_SIDE, and width * height ≤ pixels.len().
    pixels: &'a [T],
    width: i32,
    height: i32,
}

/// So that coordinates near an edge, plus a stencil's radius, stay inside `i32`.
const LONGEST_SIDE: u32 = 1 << 30;

/// One row of an [`Image`].
#[derive(Clone, Copy, Debug)]
pub struct Row<'a, T> {
    // Invariant: never empty, and at most LONGEST_SIDE pixels.
    pixels: &'a [T],
}

impl<'a, T: Element> Image<'a, T> {
    /// Views the first `width * height` elements of `pixels`. `None` where they are not there, or a side is 0 or over
    /// 2^30.
    #[inline(always)]
    pub fn new(pixels: &'a [T], width: u32, height: u32) -> Option<Self> {
        let sides = 1..=LONGEST_SIDE;
        if !sides.contains(&width) || !sides.contains(&height) {
            return None;
        }
        // At most 2^60: no wrap.
        let area = width as u64 * height as u64;
        (area <= pixels.len() as u64).then_some(Self {
            pixels,
            width: width as i32,
            height: height as i32,
        })
    }

    /// Pixels of a row.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width as usize
    }

    /// Rows.
    #[inline(always)]
    pub fn height(&self) -> usize {
        self.height as usize
    }

    /// Row `y`, or the nearest there is.
    #[inline(always)]
    pub fn row_clamped(&self, y: i32) -> Row<'a, T> {
        // Not `clamp`, which checks its limits once more.
        let start = y.max(0).min(self.height - 1) as usize * self.width as usize;
        // SAFETY: y ≤ height - 1, so start + width ≤ width * height ≤ pixels.len() (the invariant).
        let pixels = unsafe { self.pixels.get_unchecked(start..start + self.width as usize) };
        Row { pixels }
    }

    /// The pixel at (`x`, `y`), or the nearest there is: edges are repeated outwards.
    #[inline(always)]
    pub fn clamped(&self, x: i32, y: i32) -> T {
        self.row_clamped(y).clamped(x)
    }
}

impl<T: Element> Row<'_, T> {
    /// The pixel at `x`, or the nearest there is.
    #[inline(always)]
    pub fn clamped(&self, x: i32) -> T {
        let x = x.max(0).min(self.pixels.len() as i32 - 1);
        // SAFETY: 0 ≤ x ≤ len - 1, and len ≥ 1 (the invariant).
        unsafe { *self.pixels.get_unchecked(x as usize) }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::Image;

    #[test]
    fn coordinates_outside_repeat_the_edge() {
        let image = Image::new(&[1u8, 2, 3, 4, 5, 6], 3, 2).unwrap();
        assert_eq!(image.clamped(-5, -5), 1);
        assert_eq!(image.clamped(i32::MAX, i32::MIN), 3);
        assert_eq!(image.clamped(1, 1), 5);
        assert_eq!(image.clamped(i32::MIN, i32::MAX), 4);
    }

    #[test]
    fn an_image_larger_than_its_memory_is_refused() {
        assert!(Image::new(&[0u8; 5], 3, 2).is_none());
        assert!(Image::new(&[0u8; 6], 3, 2).is_some());
    }

    #[test]
    fn sides_that_are_zero_or_too_long_are_refused() {
        assert!(Image::<u8>::new(&[], 0, 0).is_none());
        assert!(Image::new(&[0u8; 6], 0, 2).is_none());
        assert!(Image::new(&[0u8; 6], (1 << 30) + 1, 0).is_none());
        // 2^16 · 2^16 wraps to 0 in 32 bits.
        assert!(Image::new(&[0u8; 6], 1 << 16, 1 << 16).is_none());
    }
}
