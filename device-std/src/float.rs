/// Math on `f32` and `f64` that `core` lacks on the device.
///
/// On the host, `x.sqrt()` calls the inherent method of `std`, which has the same name. The result
/// is the same, because all five functions are exact on both sides. Functions that round
/// differently are in [`accurate`](crate::accurate) and [`fast`](crate::fast).
///
/// ```
/// use device_std::Float;
///
/// assert_eq!(Float::mul_add(2.0f32, 3.0, 1.0), 7.0);
/// assert_eq!(Float::floor(-1.5f64), -2.0);
/// ```
pub trait Float: Copy {
    /// `self * a + b`, rounded once (`fma.rn`). The compiler never fuses `a * b + c` by itself.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// The largest integer that is not above `self`.
    fn floor(self) -> Self;
    /// The smallest integer that is not below `self`.
    fn ceil(self) -> Self;
    /// The integer part, without the fraction.
    fn trunc(self) -> Self;
}

macro_rules! exact {
    ($($float:ident)*) => { $(
        impl Float for $float {
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return core::$float::math::mul_add(self, a, b);
                #[cfg(not(target_arch = "nvptx64"))]
                return <$float>::mul_add(self, a, b);
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return core::$float::math::sqrt(self);
                #[cfg(not(target_arch = "nvptx64"))]
                return <$float>::sqrt(self);
            }
            #[inline(always)]
            fn floor(self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return core::$float::math::floor(self);
                #[cfg(not(target_arch = "nvptx64"))]
                return <$float>::floor(self);
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return core::$float::math::ceil(self);
                #[cfg(not(target_arch = "nvptx64"))]
                return <$float>::ceil(self);
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return core::$float::math::trunc(self);
                #[cfg(not(target_arch = "nvptx64"))]
                return <$float>::trunc(self);
            }
        }
    )* };
}

exact!(f32 f64);

/// The smaller and the larger of two floats, with the results of the hardware's `min` and `max`.
pub(crate) trait MinMax: Copy {
    fn minimum(self, other: Self) -> Self;
    fn maximum(self, other: Self) -> Self;
}

/// A minimum or a maximum, in inline assembly: LLVM believes that the minimum of two negative NaNs
/// is negative, and the GPU gives 0x7fffffff. The name of the register tells `kernel-build` that
/// LLVM knows nothing of the result (`verify/nan_bits.rs`). `ptxas` removes the `mov`.
#[cfg(target_arch = "nvptx64")]
macro_rules! any_nan {
    ($instruction:literal, $register:ident, $size:literal, $left:expr, $right:expr) => {{
        let result;
        // SAFETY: the instructions compute on registers, and touch no memory.
        unsafe {
            core::arch::asm!(
                concat!(
                    "{{ .reg .", $size, " cuda_rt_any_nan; ", $instruction, " cuda_rt_any_nan, {1}, {2}; ",
                    "mov.", $size, " {0}, cuda_rt_any_nan; }}"
                ),
                out($register) result, in($register) $left, in($register) $right,
                options(pure, nomem, nostack)
            );
        }
        result
    }};
}

macro_rules! min_max {
    ($($float:ident, $nan:expr, $register:ident, $size:literal, $min:literal, $max:literal;)*) => { $(
        #[cfg(target_arch = "nvptx64")]
        impl MinMax for $float {
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                any_nan!($min, $register, $size, self, other)
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                any_nan!($max, $register, $size, self, other)
            }
        }

        // The standard library's `f32::min` may return either zero for (-0, +0), and a NaN of any
        // bits.
        #[cfg(not(target_arch = "nvptx64"))]
        impl MinMax for $float {
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                match (self.is_nan(), other.is_nan()) {
                    (true, true) => <$float>::from_bits($nan),
                    (true, false) => other,
                    (false, true) => self,
                    _ if self == other => <$float>::from_bits(self.to_bits() | other.to_bits()),
                    _ => if self < other { self } else { other },
                }
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                match (self.is_nan(), other.is_nan()) {
                    (true, true) => <$float>::from_bits($nan),
                    (true, false) => other,
                    (false, true) => self,
                    _ if self == other => <$float>::from_bits(self.to_bits() & other.to_bits()),
                    _ => if self > other { self } else { other },
                }
            }
        }
    )* };
}

min_max! {
    f32, 0x7fff_ffff, reg32, "b32", "min.f32", "max.f32";
    f64, 0x7fff_ffff_ffff_ffff, reg64, "b64", "min.f64", "max.f64";
}
