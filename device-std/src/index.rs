//! The position of a thread in its launch: the token with which the thread opens its own element of
//! an output.
//!
//! # Invariants
//! - INDEX-1. Two threads of one launch never hold equal indices of one kind. A kernel uses one
//!   kind only.
//! - INDEX-2. The coordinates lie inside the launch's extent, and the row-major position of an
//!   [`Index2`] or [`Index3`] fits 64 bits. Therefore distinct coordinates have distinct positions.
//! - INDEX-3. An index stays with its thread. Its fields are private, and it is neither `Send` nor
//!   `Sync`. `'k` is a lifetime of the kernel's call: no static, cell or panic payload can keep the
//!   index after the call.

use core::fmt;
use core::marker::PhantomData;

#[cfg(target_arch = "nvptx64")]
use crate::device::registers;
use crate::extent::Extent;

/// Makes an index invariant in `'k`, and neither `Send` nor `Sync` (INDEX-3).
type Brand<'k> = PhantomData<(fn(&'k ()) -> &'k (), *const ())>;

/// The position of this thread in a one-dimensional launch.
///
/// A kernel takes the index as a parameter, and opens outputs with it:
///
/// ```
/// # use device_std::prelude::*;
/// fn ramp(i: Index1, mut output: PerThread<u32>) {
///     if let Some(out) = output.get_mut(i) {
///         *out = i.get() as u32;
///     }
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two threads reach one element). No other code can make an index:
///
/// ```compile_fail,E0451
/// let forged = device_std::Index1 { at: 0, _brand: std::marker::PhantomData };
/// ```
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// #[kernel]
/// fn ramp(i: Index1, mut output: PerThread<u32>) {
///     if let Some(out) = output.get_mut(i) {
///         *out = i.get() as u32;
///     }
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut output = compute.alloc_zeroed::<u32>(100)?;
/// ramp(&compute, cuda_rt::Grid1::covering(100), &mut output)?;
/// assert_eq!(compute.copy_to_vec(&output)?[99], 99);
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Index1<'k> {
    at: u64,
    _brand: Brand<'k>,
}

/// The position of this thread in a two-dimensional launch, x running fastest.
///
/// ```
/// # use device_std::prelude::*;
/// fn transposed(i: Index2, input: &[f32], mut output: PerThread<f32>, height: u32) {
///     if let Some(out) = output.get_mut(i) {
///         *out = input[i.x() * height as usize + i.y()];
///     }
/// }
/// ```
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// Row-major: the element of (x, y) is y * width + x.
/// #[kernel]
/// fn table(i: Index2, mut output: PerThread<u32>) {
///     let product = (i.x() * i.y()) as u32;
///     assert!(i.x() < i.width());
///     if let Some(out) = output.get_mut(i) {
///         *out = product;
///     }
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut output = compute.alloc_zeroed::<u32>(4 * 3)?;
/// table(&compute, cuda_rt::Grid2::covering(4, 3), &mut output)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [0, 0, 0, 0, 0, 1, 2, 3, 0, 2, 4, 6]);
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Index2<'k> {
    // 32 bits each: `y * width + x` is then one widening multiply-add, and cannot wrap (INDEX-2).
    x: u32,
    y: u32,
    width: u32,
    _brand: Brand<'k>,
}

/// The position of this thread in a three-dimensional launch, x running fastest, then y.
///
/// ```
/// # use device_std::prelude::*;
/// fn depth(i: Index3, mut output: PerThread<u32>) {
///     if let Some(out) = output.get_mut(i) {
///         *out = i.z() as u32;
///     }
/// }
/// ```
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// #[kernel]
/// fn sums(i: Index3, mut output: PerThread<u32>) {
///     let sum = (100 * i.z() + 10 * i.y() + i.x()) as u32;
///     if let Some(out) = output.get_mut(i) {
///         *out = sum;
///     }
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut output = compute.alloc_zeroed::<u32>(2 * 2 * 2)?;
/// sums(&compute, cuda_rt::Grid3::covering(2, 2, 2), &mut output)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [0, 1, 10, 11, 100, 101, 110, 111]);
/// # Ok(())
/// # })?
/// # }
/// ```
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
    label = "this could select another thread's element",
    note = "H32: an output takes the index that the kernel was given, so that no two threads reach one element; \
            to write any element, take an `Atomic<T>`"
)]
pub trait Index: Copy + sealed::Sealed {
    /// The row-major position, in elements.
    fn position(self) -> usize;
}

/// A position in a two-dimensional launch.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a thread's index in two dimensions",
    label = "this could select another thread's element",
    note = "H32: an output of rows and columns takes the `Index2` that the kernel was given, or that `index_in_launch` of a \
            `Block2` gives, so that no two threads reach one element"
)]
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
    /// The calling thread runs at position `at` of its launch, and `at` lies inside the extent.
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
        // SAFETY: INDEX-1 and INDEX-2: `at` was read from this thread's own registers, which differ
        // in each thread of a one-dimensional launch, and was compared with the extent.
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
    /// The calling thread runs at (`x`, `y`) of its launch, `x < width`, and `width` is the
    /// launch's extent along x.
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
        // SAFETY: INDEX-1 and INDEX-2: (x, y) was read from this thread's own registers, which
        // differ in each thread of a two-dimensional launch, and was compared with the extent.
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

    /// # Panics
    /// If the extent's volume does not fit 64 bits; on a GPU this is a trap.
    ///
    /// # Safety
    /// The calling thread runs at (`x`, `y`, `z`) of its launch, `extent` is the launch's, and the
    /// position lies inside it.
    #[inline(always)]
    pub(crate) unsafe fn new(x: u64, y: u64, z: u64, extent: Extent) -> Self {
        assert!(extent.volume().is_some(), "a launch covers 2^64 threads or more");
        // No step wraps: the position is below the volume, which fits 64 bits.
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
        // SAFETY: INDEX-1 and INDEX-2: (x, y, z) was read from this thread's own registers, which
        // differ in each thread of a launch, and was compared with the extent.
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
        // SAFETY: INDEX-1: no launch runs, and only this test holds an index.
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
        // SAFETY: INDEX-1: no launch runs, and only this test holds an index.
        unsafe { Index3::new(0, 0, 0, extent) };
    }

    #[test]
    fn positions_of_a_volume_are_row_major_and_distinct() {
        let extent = Extent { x: 3, y: 4, z: 5 };
        let mut expected = 0;
        for z in 0..5 {
            for y in 0..4 {
                for x in 0..3 {
                    // SAFETY: INDEX-1: no launch runs, and only this test holds an index.
                    let index = unsafe { Index3::new(x, y, z, extent) };
                    assert_eq!(index.position(), expected);
                    expected += 1;
                }
            }
        }
    }
}
