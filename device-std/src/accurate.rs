//! Math for `f32` and `f64` whose results are equal to the bit on the simulated device and on a
//! GPU.
//!
//! The functions come from [`libm`](https://docs.rs/libm), a port of musl's to Rust. They consist
//! of additions, multiplications and divisions, which every device rounds alike. In `f32`, a result
//! is within 1 unit in the last place of the exact value (`tanh`: 2 units); the tests of this crate
//! compare with `f64`.
//!
//! `sin` and `cos` of `f32` keep an array in local memory, for large angles. A kernel that calls
//! them asks for it in its build script: `Kernels::local_memory("name")`.
//!
//! Several functions calculate in `f64`, which is slow on GPUs for graphics. `sin` and `cos` of
//! large arguments need local memory. [`fast`](crate::fast) has approximations of a few
//! instructions.
//!
//! Three operations are correctly rounded on every device, and are not repeated here:
//! [`Float::sqrt`](crate::Float::sqrt), [`Float::mul_add`](crate::Float::mul_add), and the operator
//! `/`.
//!
//! The remainder is here because the operator `%` of floats is not exact on a GPU: LLVM compiles it
//! to a division, a truncation and a multiply-add, which give 1e8 % 3 = -2. `kernel-build` refuses
//! kernels that use the operator.
//!
//! ```
//! use device_std::accurate;
//!
//! assert_eq!(accurate::rem(1e8f32, 3.0), 1.0);
//! assert_eq!(accurate::rem_euclid(-1.0f64, 3.0), 2.0);
//! assert!((accurate::sin(0.5f64) - 0.5f64.sin()).abs() < 1e-15);
//! assert_eq!((accurate::exp(0.0f32), accurate::cos(0.0f32)), (1.0, 1.0));
//! assert_eq!((accurate::exp2(10.0f64), accurate::log2(1024.0f64)), (1024.0, 10.0));
//! assert_eq!((accurate::ln(1.0f32), accurate::pow(3.0f64, 4.0)), (0.0, 81.0));
//!
//! /// For `f32` and `f64`.
//! fn sigmoid<T: accurate::Real + From<f32> + std::ops::Add<Output = T>>(x: T) -> T
//! where
//!     T: std::ops::Mul<Output = T>,
//! {
//!     accurate::tanh(x * T::from(0.5)) * T::from(0.5) + T::from(0.5)
//! }
//! assert_eq!((sigmoid(0.0f32), sigmoid(0.0f64)), (0.5, 0.5));
//! ```

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) = $single:ident, $double:ident;)*) => {
        /// `f32` or `f64`.
        pub trait Real: Copy + sealed::Sealed {
            $(
                #[doc(hidden)]
                fn $name($($argument: Self),*) -> Self;
            )*
            #[doc(hidden)]
            fn rem_euclid(x: Self, y: Self) -> Self;
        }
        impl Real for f32 {
            $(
                #[inline(always)]
                fn $name($($argument: Self),*) -> Self {
                    libm::$single($($argument),*)
                }
            )*
            #[inline(always)]
            fn rem_euclid(x: Self, y: Self) -> Self {
                let remainder = Self::rem(x, y);
                if remainder < 0.0 { remainder + y.abs() } else { remainder }
            }
        }
        impl Real for f64 {
            $(
                #[inline(always)]
                fn $name($($argument: Self),*) -> Self {
                    libm::$double($($argument),*)
                }
            )*
            #[inline(always)]
            fn rem_euclid(x: Self, y: Self) -> Self {
                let remainder = Self::rem(x, y);
                if remainder < 0.0 { remainder + y.abs() } else { remainder }
            }
        }
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name<T: Real>($($argument: T),*) -> T {
                T::$name($($argument),*)
            }
        )*
    };
}

functions! {
    /// e^x.
    exp(x) = expf, exp;
    /// 2^x.
    exp2(x) = exp2f, exp2;
    /// The natural logarithm.
    ln(x) = logf, log;
    /// The logarithm to base 2.
    log2(x) = log2f, log2;
    /// The sine of `x` radians.
    sin(x) = sinf, sin;
    /// The cosine of `x` radians.
    cos(x) = cosf, cos;
    /// The hyperbolic tangent.
    tanh(x) = tanhf, tanh;
    /// `x` to the power of `y`, with all the special cases of C's `pow`.
    pow(x, y) = powf, pow;
    /// The remainder of `x / y`, with the sign of `x`, without rounding: the value of `x % y` on
    /// the host.
    rem(x, y) = fmodf, fmod;
}

/// The least remainder of `x / y` that is not negative, as `f32::rem_euclid` computes it. It is
/// rounded once if `x` is negative.
#[inline(always)]
pub fn rem_euclid<T: Real>(x: T, y: T) -> T {
    T::rem_euclid(x, y)
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    /// The largest error in units in the last place of the exact value.
    fn worst(values: impl Iterator<Item = (f32, f64)>) -> f64 {
        values
            .filter(|(_, exact)| {
                exact.abs() > f64::from(f32::MIN_POSITIVE) && exact.abs() < f64::from(f32::MAX)
            })
            .map(|(got, exact)| {
                let exponent = exact.abs().log2().floor() as i32;
                (f64::from(got) - exact).abs() / 2f64.powi(exponent - 23)
            })
            .fold(0.0, f64::max)
    }

    /// Arguments from `from` to `to` in even steps, and as many again of all magnitudes.
    fn arguments(from: f32, to: f32) -> impl Iterator<Item = f32> {
        let steps = 200_000u32;
        let even = (0..=steps).map(move |step| from + (to - from) * (step as f32 / steps as f32));
        let magnitudes = (0..=steps).map(move |step| f32::from_bits(step * (0x7f7f_ffff / steps)));
        let both = magnitudes.flat_map(|x| [x, -x]);
        even.chain(both.filter(move |x| (from..=to).contains(x)))
    }

    macro_rules! within {
        ($($units:literal: $name:ident in $from:expr, $to:expr;)*) => { $(
            #[test]
            fn $name() {
                let error = worst(arguments($from, $to).map(|x| (super::$name(x), f64::from(x).$name())));
                assert!(error <= $units, "{error}");
                assert!(error > 0.45, "no value was measured: {error}");
            }
        )* };
    }
    within! {
        1.0: exp in -87.0, 88.0;
        1.0: exp2 in -126.0, 127.9;
        1.0: ln in 0.0, f32::MAX;
        1.0: log2 in 0.0, f32::MAX;
        1.0: sin in -1e6, 1e6;
        1.0: cos in -1e6, 1e6;
        2.0: tanh in -10.0, 10.0;
    }

    #[test]
    fn pow() {
        let exponents = [-12.5f32, -3.0, -0.37, 0.5, 1.0, 2.0, 7.25, 31.0];
        let pairs = || arguments(1e-3, 1e3).flat_map(|x| exponents.map(|y| (x, y)));
        let error = worst(pairs().map(|(x, y)| (super::pow(x, y), f64::from(x).powf(f64::from(y)))));
        assert!((0.45..=1.0).contains(&error), "{error}");
    }

    /// On the host, `%` is exact.
    #[test]
    fn remainders_equal_the_hosts() {
        assert_eq!(super::rem(1e8f32, 3.0), 1.0);
        let special = [
            0.0,
            -0.0,
            1.0,
            3.0,
            -2.5,
            f32::MIN_POSITIVE,
            1e-45,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        let spread = |step: u32| f32::from_bits(step.wrapping_mul(0x9e37_79b9) ^ step << 7);
        let values = || special.into_iter().chain((0..500).map(spread));
        for (x, y) in values().flat_map(|x| values().map(move |y| (x, y))) {
            let same = |got: f32, expected: f32| {
                assert!(
                    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
                    "{x} % {y}: {got}"
                );
            };
            same(super::rem(x, y), x % y);
            same(super::rem_euclid(x, y), x.rem_euclid(y));
            let wide = |x: f32| f64::from(x) * 1.000_000_1;
            let (x, y) = (wide(x), wide(y));
            let same = |got: f64, expected: f64| {
                assert!(
                    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
                    "{x} % {y}: {got}"
                );
            };
            same(super::rem(x, y), x % y);
            same(super::rem_euclid(x, y), x.rem_euclid(y));
        }
    }

    /// Compares with the platform's functions, whose own error is not known.
    #[test]
    fn doubles_are_near_the_platforms() {
        for step in -20_000..20_000 {
            let x = f64::from(step) * 0.00137 + 1e-9;
            let near = |got: f64, expected: f64| {
                let error = (got - expected).abs();
                assert!(
                    error <= 2.0 * f64::EPSILON * expected.abs(),
                    "{x}: {got} for {expected}"
                );
            };
            near(super::exp(x), x.exp());
            near(super::exp2(x), x.exp2());
            near(super::ln(x.abs()), x.abs().ln());
            near(super::log2(x.abs()), x.abs().log2());
            near(super::sin(x), x.sin());
            near(super::cos(x), x.cos());
            near(super::tanh(x), x.tanh());
            near(super::pow(x.abs(), 1.7), x.abs().powf(1.7));
        }
    }
}
