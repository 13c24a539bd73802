//! The position of a thread in its launch: the token that opens its own element of an output.
//!
//! # Invariants
//! 1. Two threads of one launch never hold equal indices of one kind; a kernel deals with one kind
//!    only.
//! 2. The coordinates lie inside the launch's extent, and the row-major position of an [`Index2`]
//!    or [`Index3`] fits 64 bits. So distinct coordinates have distinct positions.
//! 3. An index stays with its thread: its fields are private, it is neither `Send` nor `Sync`, and
//!    `'k` is a lifetime of the kernel's call, so that no static, cell or payload outlives the call
//!    with it.

use core::fmt;
use core::marker::PhantomData;

#[cfg(target_arch = "nvptx64")]
use crate::device::registers;
use crate::extent::Extent;

/// Invariant in `'k`, and bound to this thread.
type Brand<'k> = PhantomData<(fn(&'k ()) -> &'k (), *const ())>;

/// The position of this thread in a one-dimensional launch.
///
/// ```compile_fail,E0451
/// let forged = device_std::Index1 { at: 0, _brand: std::marker::PhantomData };
/// ```
#[derive(Clone, Copy)]
pub struct Index1<'k> {
    at: u64,
    _brand: Brand<'k>,
}

/// The position of this thread in a two-dimensional launch, x running fastest.
#[derive(Clone, Copy)]
pub struct Index2<'k> {
    // 32 bits each, so that `y * width + x` is one widening multiply-add, and cannot wrap
    // (invariant 2).
    x: u32,
    y: u32,
    width: u32,
    _brand: Brand<'k>,
}

/// The position of this thread in a three-dimensional launch, x running fastest, then y.
#[derive(Clone, Copy)]
pub struct Index3<'k> {
    x: u64,
    y: u64,
    z: u64,
    position: u64,
    _brand: Brand<'k>,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Index1<'_> {}
    impl Sealed for super::Index2<'_> {}
    impl Sealed for super::Index3<'_> {}
}

/// A position in a launch of any dimension.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a thread's index",
    label = "could be another thread's element",
    note = "H32: an output opens with the index that the kernel was given, so that no two threads reach one element; \
            to write anywhere, take an `Atomic<T>`"
)]
pub trait Index: Copy + sealed::Sealed {
    /// The row-major position, in elements.
    fn position(self) -> usize;
}

/// A position in a two-dimensional launch.
pub trait PlaneIndex: Index {
    /// (x, y, width of the launch), in threads.
    #[doc(hidden)]
    fn plane(self) -> (u32, u32, u32);
}

impl<'k> Index1<'k> {
    /// The position, in threads.
    #[inline(always)]
    pub fn get(self) -> usize {
        self.at as usize
    }

    /// # Safety
    /// Only for the thread that runs at `at`, inside the launch's extent.
    #[inline(always)]
    pub(crate) unsafe fn new(at: u64) -> Self {
        Self {
            at,
            _brand: PhantomData,
        }
    }

    /// This thread's index, if it lies inside the extent.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn current(extent: Extent) -> Option<Self> {
        let at = registers::global_x();
        // SAFETY: the hardware gives each thread of a one-dimensional launch its own x.
        (at < extent.x).then(|| unsafe { Self::new(at) })
    }
}

impl<'k> Index2<'k> {
    /// Along x, in threads.
    #[inline(always)]
    pub fn x(self) -> usize {
        self.x as usize
    }

    /// Along y, in threads.
    #[inline(always)]
    pub fn y(self) -> usize {
        self.y as usize
    }

    /// The launch's extent along x, in threads.
    #[inline(always)]
    pub fn width(self) -> usize {
        self.width as usize
    }

    /// # Safety
    /// Only for the thread that runs at (`x`, `y`), with `x < width`, and `width` that of the
    /// launch.
    #[inline(always)]
    pub(crate) unsafe fn new(x: u32, y: u32, width: u32) -> Self {
        Self {
            x,
            y,
            width,
            _brand: PhantomData,
        }
    }

    /// This thread's index, if it lies inside the extent.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn current(extent: Extent) -> Option<Self> {
        let (width, height) = extent.plane();
        let (x, y) = (registers::global_x(), registers::global_y());
        // SAFETY: the hardware gives each thread of a two-dimensional launch its own (x, y).
        (x < width as u64 && y < height as u64).then(|| unsafe { Self::new(x as u32, y as u32, width) })
    }
}

impl<'k> Index3<'k> {
    /// Along x, in threads.
    #[inline(always)]
    pub fn x(self) -> usize {
        self.x as usize
    }

    /// Along y, in threads.
    #[inline(always)]
    pub fn y(self) -> usize {
        self.y as usize
    }

    /// Along z, in threads.
    #[inline(always)]
    pub fn z(self) -> usize {
        self.z as usize
    }

    /// Traps (panics in simulation) if the extent's volume does not fit 64 bits.
    ///
    /// # Safety
    /// Only for the thread that runs at (`x`, `y`, `z`), inside `extent`, which is the launch's.
    #[inline(always)]
    pub(crate) unsafe fn new(x: u64, y: u64, z: u64, extent: Extent) -> Self {
        assert!(extent.volume().is_some(), "a launch covers 2^64 threads or more");
        // Less than the volume, so no step wraps.
        let position = (z * extent.y + y) * extent.x + x;
        Self {
            x,
            y,
            z,
            position,
            _brand: PhantomData,
        }
    }

    /// This thread's index, if it lies inside the extent.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn current(extent: Extent) -> Option<Self> {
        let (x, y, z) = (
            registers::global_x(),
            registers::global_y(),
            registers::global_z(),
        );
        let inside = x < extent.x && y < extent.y && z < extent.z;
        // SAFETY: the hardware gives each thread of a launch its own (x, y, z).
        inside.then(|| unsafe { Self::new(x, y, z, extent) })
    }
}

impl Index for Index1<'_> {
    #[inline(always)]
    fn position(self) -> usize {
        self.at as usize
    }
}

impl Index for Index2<'_> {
    #[inline(always)]
    fn position(self) -> usize {
        // At most (2^32 - 1)^2 + 2^32 - 2 < 2^64.
        (self.y as u64 * self.width as u64 + self.x as u64) as usize
    }
}

impl Index for Index3<'_> {
    #[inline(always)]
    fn position(self) -> usize {
        self.position as usize
    }
}

impl PlaneIndex for Index2<'_> {
    #[inline(always)]
    fn plane(self) -> (u32, u32, u32) {
        (self.x, self.y, self.width)
    }
}

impl fmt::Debug for Index1<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index1").field(&self.at).finish()
    }
}

impl fmt::Debug for Index2<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index2").field(&self.x).field(&self.y).finish()
    }
}

impl fmt::Debug for Index3<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index3")
            .field(&self.x)
            .field(&self.y)
            .field(&self.z)
            .finish()
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    static_assertions::assert_not_impl_any!(Index1<'static>: Send, Sync);
    static_assertions::assert_not_impl_any!(Index2<'static>: Send, Sync);
    static_assertions::assert_not_impl_any!(Index3<'static>: Send, Sync);

    #[test]
    fn positions_do_not_wrap_at_the_largest_plane() {
        let last = u32::MAX - 1;
        // SAFETY: this test is the only thread there is.
        let index = unsafe { Index2::new(last, last, u32::MAX) };
        assert_eq!(
            index.position() as u128,
            last as u128 * u32::MAX as u128 + last as u128
        );
    }

    #[test]
    #[should_panic(expected = "2^32 threads or more along one axis")]
    fn a_plane_whose_positions_could_wrap_is_refused() {
        Extent {
            x: 1 << 32,
            y: 1 << 32,
            z: 1,
        }
        .plane();
    }

    #[test]
    #[should_panic(expected = "2^64 threads or more")]
    fn a_volume_whose_positions_could_wrap_is_refused() {
        let extent = Extent {
            x: 1 << 32,
            y: 1 << 16,
            z: 1 << 16,
        };
        // SAFETY: this test is the only thread there is.
        unsafe { Index3::new(0, 0, 0, extent) };
    }

    #[test]
    fn positions_of_a_volume_are_row_major_and_distinct() {
        let extent = Extent { x: 3, y: 4, z: 5 };
        let mut expected = 0;
        for z in 0..5 {
            for y in 0..4 {
                for x in 0..3 {
                    // SAFETY: this test is the only thread there is.
                    let index = unsafe { Index3::new(x, y, z, extent) };
                    assert_eq!(index.position(), expected);
                    expected += 1;
                }
            }
        }
    }
}
