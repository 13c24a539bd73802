use crate::hash::Layout;

/// The exact number of threads that a launch covers, (x, y, z). Threads outside it do not enter the
/// kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Extent {
    /// Threads along x.
    pub x: u64,
    /// Threads along y.
    pub y: u64,
    /// Threads along z.
    pub z: u64,
}

impl Extent {
    /// Hash of the layout, which must be equal on the host and the device.
    #[doc(hidden)]
    pub const LAYOUT: u64 = Layout::of::<Self>("Extent").finish();

    /// The number of threads; `None` if it does not fit 64 bits.
    #[inline(always)]
    pub const fn volume(self) -> Option<u64> {
        match self.x.checked_mul(self.y) {
            Some(plane) => plane.checked_mul(self.z),
            None => None,
        }
    }

    /// The width and height as 32-bit numbers. Their product then fits 64 bits, and so does every
    /// row-major position.
    ///
    /// # Panics
    ///
    /// If one of them does not fit 32 bits: no GPU has a grid of that size. On a GPU this is a
    /// trap.
    #[inline(always)]
    pub(crate) fn plane(self) -> (u32, u32) {
        assert!(
            self.x <= u32::MAX as u64 && self.y <= u32::MAX as u64,
            "a two-dimensional launch covers 2^32 threads or more along one axis"
        );
        (self.x as u32, self.y as u32)
    }
}
