use bytemuck::Pod;

use crate::hash::Layout;

/// A type that device memory can hold: every bit pattern is a value, there is no padding, and the
/// layout is the same on host and device.
///
/// Integers, floats and arrays of elements implement it; with the feature `half`, `half::f16` and
/// `half::bf16` do too, and with the feature `num-complex` so does `num_complex::Complex` of an
/// element. `#[derive(Element)]` implements it for `#[repr(C)]` structs of elements.
///
/// ```
/// use device_std::Element;
/// use device_std::bytemuck::{Pod, Zeroable};
///
/// #[derive(Clone, Copy, Pod, Zeroable, Element)]
/// #[repr(C)]
/// struct Point { x: f32, y: f32 }
/// ```
///
/// # Hazards prevented
/// [H31](crate::hazards#h31) (a type whose bits the device must not choose),
/// [H39](crate::hazards#h39) (memory that nobody wrote), [H40](crate::hazards#h40) (zeros that are
/// no value).
///
/// # Safety
/// The type has the layout of `repr(C)`. `LAYOUT` differs for types whose sizes, alignments, field
/// names, field offsets or field layouts differ.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in device memory",
    label = "not an element: device memory may hold any bits, and its type must have one layout on host and device",
    note = "H31: use integers, floats and arrays of them, or derive it for a struct: \
            `#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, cuda_rt::Element)] #[repr(C)]`",
    note = "H39: `MaybeUninit` is memory never written: write all of it with `stream.init_filled(..)`, `init_from(..)` or \
            `init_from_host(..)`"
)]
pub unsafe trait Element: Pod {
    /// Hash of the layout.
    #[doc(hidden)]
    const LAYOUT: u64;
}

/// A type that can be passed to a kernel by value.
///
/// # Safety
/// As for [`Element`], with one exception: not every bit pattern needs to be a value (`bool`).
/// `IS_ANY_BITS` says whether it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel",
    label = "not a kernel parameter",
    note = "H31: pass elements and `bool` by value, read through `&[T]`, and write through `PerThread<T>`"
)]
pub unsafe trait Scalar: Copy + 'static {
    /// Hash of the layout.
    #[doc(hidden)]
    const LAYOUT: u64;
    /// Whether every bit pattern is a value. If not, the type is one byte, and its values are 0 and
    /// 1.
    #[doc(hidden)]
    const IS_ANY_BITS: bool = true;
}

macro_rules! primitives {
    ($($type:ident)*) => { $(
        // SAFETY: a primitive has one size and alignment on x86-64, AArch64 and nvptx64; the hash
        // holds its name.
        unsafe impl Element for $type {
            const LAYOUT: u64 = Layout::of::<$type>(stringify!($type)).finish();
        }
        // SAFETY: the `Element` above has the same layout, and every bit pattern is a value.
        unsafe impl Scalar for $type {
            const LAYOUT: u64 = <$type as Element>::LAYOUT;
        }
    )* };
}

primitives!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64);

#[cfg(feature = "half")]
macro_rules! halves {
    ($($type:ident)*) => { $(
        // SAFETY: the type is 16 bits, as `u16` is, on every target; the hash holds its name.
        unsafe impl Element for half::$type {
            const LAYOUT: u64 = Layout::of::<half::$type>(stringify!($type)).finish();
        }
        // SAFETY: the `Element` above has the same layout, and every bit pattern is a value.
        unsafe impl Scalar for half::$type {
            const LAYOUT: u64 = <half::$type as Element>::LAYOUT;
        }
    )* };
}
#[cfg(feature = "half")]
halves!(f16 bf16);

// SAFETY: `Complex` is `repr(C)`, two parts of one type and so without padding. The hash holds both
// fields.
#[cfg(feature = "num-complex")]
unsafe impl<T: Element> Element for num_complex::Complex<T> {
    const LAYOUT: u64 = Layout::of::<Self>("Complex")
        .field("re", core::mem::offset_of!(Self, re), T::LAYOUT)
        .field("im", core::mem::offset_of!(Self, im), T::LAYOUT)
        .finish();
}
// SAFETY: the `Element` above has the same layout, and every bit pattern is a value.
#[cfg(feature = "num-complex")]
unsafe impl<T: Element> Scalar for num_complex::Complex<T> {
    const LAYOUT: u64 = <Self as Element>::LAYOUT;
}

// SAFETY: `bool` is one byte, 0 or 1, on host and device.
unsafe impl Scalar for bool {
    const LAYOUT: u64 = Layout::of::<bool>("bool").finish();
    const IS_ANY_BITS: bool = false;
}

// SAFETY: an array is its elements in a row, on every target. The hash holds the element's hash,
// and the size, which gives the length.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const LAYOUT: u64 = Layout::of::<[T; N]>("[]").field("", N, T::LAYOUT).finish();
}
// SAFETY: the `Element` above has the same layout, and every bit pattern is a value.
unsafe impl<T: Element, const N: usize> Scalar for [T; N] {
    const LAYOUT: u64 = <[T; N] as Element>::LAYOUT;
}

#[cfg(all(test, feature = "num-complex"))]
mod tests {
    use num_complex::Complex;

    use super::*;

    /// A kernel that reads pairs of floats is another kernel.
    #[test]
    fn complex_numbers_have_a_layout_of_their_own() {
        let layouts = [
            <Complex<f32> as Element>::LAYOUT,
            <Complex<f64> as Element>::LAYOUT,
            <Complex<i32> as Element>::LAYOUT,
            <Complex<Complex<f32>> as Element>::LAYOUT,
            <[f32; 2] as Element>::LAYOUT,
            <f64 as Element>::LAYOUT,
        ];
        for (index, layout) in layouts.iter().enumerate() {
            assert!(!layouts[..index].contains(layout), "{index}");
        }
        assert_eq!(size_of::<Complex<f32>>(), 2 * size_of::<f32>());
    }
}
