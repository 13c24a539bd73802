//! The bilateral filter of Tomasi and Manduchi ("Bilateral filtering for gray and color images",
//! ICCV 1998), by its definition: a mean over a square window, weighted by Gaussians of distance
//! and of difference in brightness.

use core::f32::consts::LOG2_E;

use device_std::prelude::*;

/// Smooths an 8-bit image of `width` × `height` pixels, row-major, and keeps its edges.
///
/// `radius` is in pixels, and 4096 at most: larger radii count as 4096. The side of the window has
/// 2 · `radius` + 1 pixels. Outside the image, the edge is repeated. `sigma_space` is in pixels and
/// `sigma_range` in grey levels, both above 0. Results are rounded to nearest.
///
/// The grid covers (width, height) threads. Traps if `input` is shorter than the image, if a side
/// is 0 or above 2^30 pixels, or if the image has 2^32 pixels or more. Pixels beyond the end of
/// `output` are not written.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid2;
/// use device_kernels::bilateral;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let image = compute.alloc_from_slice(&[100_u8; 32 * 16])?;
/// let mut smooth = compute.alloc_zeroed::<u8>(32 * 16)?;
/// let (width, height, radius) = (32, 16, 3);
/// let grid = Grid2::covering(32, 16);
/// bilateral(&compute, grid, &image, &mut smooth, width, height, radius, 2.0, 30.0)?;
/// assert_eq!(compute.copy_to_vec(&smooth)?, [100; 32 * 16]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn bilateral(
    i: Index2,
    input: &[u8],
    mut output: PerThread<u8>,
    width: u32,
    height: u32,
    radius: u32,
    sigma_space: f32,
    sigma_range: f32,
) {
    let image = Image::new(input, width, height);
    if i.x() >= image.width() || i.y() >= image.height() {
        return;
    }
    let window = Window::new(sigma_space, sigma_range);
    let (x, y) = (i.x() as i32, i.y() as i32);
    // With a constant radius, the compiler unrolls the loops and computes the distances. Radii up
    // to three are usual for video.
    let value = match radius {
        1 => window.filter(&image, x, y, 1),
        2 => window.filter(&image, x, y, 2),
        3 => window.filter(&image, x, y, 3),
        radius => window.filter(&image, x, y, radius.min(MAX_RADIUS) as i32),
    };
    if let Some(out) = output.get_mut(i) {
        *out = value;
    }
}

/// The limit keeps coordinates far from the ends of `i32`.
const MAX_RADIUS: u32 = 1 << 12;

/// Factors of the exponent, to base 2: weights are `exp2(space · distance² + range · difference²)`.
struct Window {
    space: f32,
    range: f32,
}

impl Window {
    #[inline(always)]
    fn new(sigma_space: f32, sigma_range: f32) -> Self {
        let factor = |sigma: f32| -0.5 * LOG2_E / (sigma * sigma);
        Self {
            space: factor(sigma_space),
            range: factor(sigma_range),
        }
    }

    #[inline(always)]
    fn filter(&self, image: &Image<'_, u8>, x: i32, y: i32, radius: i32) -> u8 {
        let centre = f32::from(image.clamped(x, y));
        let (mut sum, mut weights) = (0.0_f32, 0.0_f32);
        // A `for` loop over an inclusive range is not unrolled, because the range has a flag for
        // its end.
        let mut dy = -radius;
        while dy <= radius {
            let row = image.row_clamped(y + dy);
            let mut dx = -radius;
            while dx <= radius {
                let value = f32::from(row.clamped(x + dx));
                let difference = value - centre;
                let distance = (dx * dx + dy * dy) as f32;
                let weight = fast::exp2(distance.mul_add(self.space, difference * difference * self.range));
                sum = weight.mul_add(value, sum);
                weights += weight;
                dx += 1;
            }
            dy += 1;
        }
        // The centre weighs 1, so the divisor is not 0.
        (sum / weights + 0.5) as u8
    }
}
