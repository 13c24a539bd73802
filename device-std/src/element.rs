use bytemuck::Pod;

use crate::hash::Layout;

/// A type that device memory can hold: any bits are a value, there is no padding, and the layout is
/// the same on host and device.
///
/// Implemented for the integers and floats (with the feature `half` also `half::f16` and
/// `half::bf16`), arrays of elements, and by `#[derive(Element)]` for `#[repr(C)]` structs of
/// elements.
///
/// # Safety
/// The layout is that of `repr(C)`, and `LAYOUT` differs for types whose sizes, alignments, field
/// names, field offsets or field layouts differ.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in device memory",
    label = "not an element: device memory can hold any bits, and must have one layout on host and device",
    note = "H31: use integers, floats and arrays of them, or derive it for a struct: \
            `#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, cuda_rt::Element)] #[repr(C)]`",
    note = "H39: `MaybeUninit` is memory never written: write all of it with `stream.init_filled(..)`, `init_from(..)` or \
            `init_from_host(..)`"
)]
pub unsafe trait Element: Pod {
    /// A hash of the layout.
    #[doc(hidden)]
    const LAYOUT: u64;
}

/// A type that can be passed to a kernel by value.
///
/// # Safety
/// As [`Element`], but that a value need not be any bits (`bool`), and `IS_ANY_BITS` tells.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel",
    label = "not a kernel parameter",
    note = "H31: pass elements and `bool` by value, read through `&[T]`, and write through `PerThread<T>`"
)]
pub unsafe trait Scalar: Copy + 'static {
    /// A hash of the layout.
    #[doc(hidden)]
    const LAYOUT: u64;
    /// Whether any bits are a value. Otherwise, 0 and 1 are, in one byte.
    #[doc(hidden)]
    const IS_ANY_BITS: bool = true;
}

macro_rules! primitives {
    ($($type:ident)*) => { $(
        // SAFETY: a primitive of one size and alignment on x86-64, AArch64 and nvptx64; the hash
        // holds its name.
        unsafe impl Element for $type {
            const LAYOUT: u64 = Layout::of::<$type>(stringify!($type)).finish();
        }
        // SAFETY: as above.
        unsafe impl Scalar for $type {
            const LAYOUT: u64 = <$type as Element>::LAYOUT;
        }
    )* };
}

primitives!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64);

#[cfg(feature = "half")]
macro_rules! halves {
    ($($type:ident)*) => { $(
        // SAFETY: 16 bits, as `u16`, on every target; the hash holds its name.
        unsafe impl Element for half::$type {
            const LAYOUT: u64 = Layout::of::<half::$type>(stringify!($type)).finish();
        }
        // SAFETY: as above.
        unsafe impl Scalar for half::$type {
            const LAYOUT: u64 = <half::$type as Element>::LAYOUT;
        }
    )* };
}
#[cfg(feature = "half")]
halves!(f16 bf16);

// SAFETY: `bool` is one byte, 0 or 1, on host and device.
unsafe impl Scalar for bool {
    const LAYOUT: u64 = Layout::of::<bool>("bool").finish();
    const IS_ANY_BITS: bool = false;
}

// SAFETY: an array is its elements in a row, on every target; the hash holds the element's and,
// through the size, the length.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const LAYOUT: u64 = Layout::of::<[T; N]>("[]").field("", N, T::LAYOUT).finish();
}
