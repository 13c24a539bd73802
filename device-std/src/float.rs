/// Math on `f32` and `f64` that `core` lacks on the device.
///
/// On the host the inherent methods of `std` have the same names and win where one writes `x.sqrt()`. `mul_add`, `sqrt`, `floor`,
/// `ceil` and `trunc` are exact on both sides, so that makes no difference. `exp` and `exp2` are approximations; written
/// `Float::exp(x)`, the host runs an approximation of its own that the CPU can vectorise, of about the same error.
pub trait Float: Copy {
    /// `self * a + b`, rounded once (`fma.rn`). `a * b + c` is never fused by itself.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// The largest integer not above.
    fn floor(self) -> Self;
    /// The smallest integer not below.
    fn ceil(self) -> Self;
    /// Without the fraction.
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

/// The smaller and the larger of two floats, as `min` and `max` of the hardware have them.
pub(crate) trait MinMax: Copy {
    fn minimum(self, other: Self) -> Self;
    fn maximum(self, other: Self) -> Self;
}

macro_rules! min_max {
    ($($float:ident, $nan:expr, $min:literal, $max:literal;)*) => { $(
        #[cfg(target_arch = "nvptx64")]
        impl MinMax for $float {
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                unsafe extern "C" {
                    #[link_name = $min]
                    safe fn min(left: $float, right: $float) -> $float;
                }
                min(self, other)
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                unsafe extern "C" {
                    #[link_name = $max]
                    safe fn max(left: $float, right: $float) -> $float;
                }
                max(self, other)
            }
        }

        // `f32::min` may give either zero for (-0, +0), and any of the bits of what is not a number.
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
    f32, 0x7fff_ffff, "llvm.nvvm.fmin.f", "llvm.nvvm.fmax.f";
    f64, 0x7fff_ffff_ffff_ffff, "llvm.nvvm.fmin.d", "llvm.nvvm.fmax.d";
}

/// Fast approximations in single precision.
pub mod fast {
    use super::Float;

    /// 2^x: `ex2.approx.ftz.f32` on the device (within 2 units in the last place, subnormal results are 0), a polynomial of
    /// about that error on the host, where results from 2^127.5 on are infinite.
    #[inline(always)]
    pub fn exp2(x: f32) -> f32 {
        #[cfg(target_arch = "nvptx64")]
        return ex2(x);
        #[cfg(not(target_arch = "nvptx64"))]
        return exp2_polynomial(x);
    }

    /// e^x for arguments in (-87, 88), clamped outside. Written after nvcc's `expf`: 2^n through exponent bits, the rest through
    /// [`exp2`]; within 2 units in the last place.
    #[inline(always)]
    pub fn exp(x: f32) -> f32 {
        // log2(e) in two parts, so that the product keeps its low bits.
        const LOG2_E_HIGH: f32 = f32::from_bits(0x3fb8_aa3b);
        const LOG2_E_LOW: f32 = 1.925_963e-8;
        let x = x.clamp(-87.0, 88.0);
        let t = Float::mul_add(x, core::f32::consts::LOG2_E, ROUND_AND_BIAS);
        let n = t - ROUND_AND_BIAS;
        let fraction = Float::mul_add(x, LOG2_E_HIGH, -n);
        let fraction = Float::mul_add(x, LOG2_E_LOW, fraction);
        small_exp2(fraction) * f32::from_bits(t.to_bits() << 23)
    }

    /// 1.5 · 2^23 + 127. Adding it rounds to an integer, which is left, biased as an exponent, in the low bits: no conversion
    /// between float and integer, which CPUs vectorise badly.
    const ROUND_AND_BIAS: f32 = 12_583_039.0;

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn ex2(x: f32) -> f32 {
        unsafe extern "C" {
            #[link_name = "llvm.nvvm.ex2.approx.ftz.f"]
            safe fn ex2(x: f32) -> f32;
        }
        ex2(x)
    }

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn small_exp2(x: f32) -> f32 {
        ex2(x)
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    fn exp2_polynomial(x: f32) -> f32 {
        // As `ex2.approx.ftz`: what would be subnormal is 0, what does not fit is infinite.
        let inside = x.clamp(-126.0, 127.499_9);
        let t = inside + ROUND_AND_BIAS;
        let power = f32::from_bits(t.to_bits() << 23);
        let value = small_exp2(inside - (t - ROUND_AND_BIAS)) * power;
        if x < -126.0 {
            0.0
        } else if x >= 127.5 {
            f32::INFINITY
        } else {
            value
        }
    }

    /// 2^x for |x| ≤ 0.5: a polynomial of degree 6, after Cephes' `exp2f`.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    fn small_exp2(x: f32) -> f32 {
        let mut p = 1.535_336e-4_f32;
        for c in [
            1.339_887e-3,
            9.618_437e-3,
            5.550_332_4e-2,
            2.402_264_7e-1,
            core::f32::consts::LN_2,
            1.0,
        ] {
            p = Float::mul_add(p, x, c);
        }
        p
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::fast;

    fn worst_error(from: f32, to: f32, approximate: fn(f32) -> f32, exact: fn(f64) -> f64) -> f64 {
        let steps = 200_000;
        (0..=steps)
            .map(|step| {
                let x = from + (to - from) * (step as f32 / steps as f32);
                let exact = exact(x as f64);
                ((approximate(x) as f64 - exact) / exact).abs()
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let error = worst_error(-86.0, 87.0, fast::exp, f64::exp);
        assert!(error < 2.0 * f32::EPSILON as f64, "{error:e}");
    }

    #[test]
    fn exp2_is_within_two_units_in_the_last_place() {
        let error = worst_error(-125.0, 127.0, fast::exp2, f64::exp2);
        assert!(error < 2.0 * f32::EPSILON as f64, "{error:e}");
    }

    #[test]
    fn exp2_has_the_limits_of_the_device() {
        assert_eq!(fast::exp2(0.0), 1.0);
        assert_eq!(fast::exp2(-127.0), 0.0);
        assert_eq!(fast::exp2(f32::NEG_INFINITY), 0.0);
        assert_eq!(fast::exp2(128.0), f32::INFINITY);
        assert_eq!(fast::exp2(127.0), 2f32.powi(127));
    }
}
