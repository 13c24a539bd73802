//! Fast approximations in single precision, by the hardware's own instructions. Each function, its
//! instruction, and its error on the device:
//!
//! - [`exp2`]: `ex2.approx.ftz.f32`. Error: 2 units in the last place.
//! - [`exp`]: `ex2.approx.ftz.f32` and three more. Error: 2 units in the last place.
//! - [`log2`]: `lg2.approx.ftz.f32`. Error: 2^-22 absolute in (0.5, 2), relative
//!   elsewhere.
//! - [`ln`]: as `log2`, and a product. Error: 2^-22 absolute in (0.5, 2), relative
//!   elsewhere, and a rounding.
//! - [`sin`], [`cos`]: `sin.approx.ftz.f32`, `cos.approx.ftz.f32`. Error: 2^-20.4
//!   absolute in [-2π, 2π]; further out it grows.
//! - [`tanh`]: `tanh.approx.f32`. Error: 2^-11 relative.
//! - [`sqrt`]: `sqrt.approx.ftz.f32`. Error: 2^-22 relative.
//! - [`rsqrt`]: `rsqrt.approx.ftz.f32`. Error: 2^-22.4 relative.
//! - [`rcp`]: `rcp.approx.ftz.f32`. Error: 1 unit in the last place.
//! - [`div`]: `div.approx.ftz.f32`. Error: 2 units in the last place for divisors in
//!   [2^-126, 2^126].
//! - [`pow`]: `exp2(y * log2(x))`. Error: 2^-22 · (1 + abs(y) · max(1, abs(log2(x))))
//!   relative.
//!
//! The bounds come from the PTX ISA, "Floating Point Instructions", rounded up. There are two
//! exceptions. `exp` and `pow` consist of other functions. For `sin` and `cos`, the PTX ISA says
//! 2^-20.5, but the error on an H200 was 0.3 % larger (at -5.0014157).
//!
//! The tests of this crate measure the errors on both devices. On the simulated device, the
//! functions are accurate to about a unit in the last place, so its results differ from the GPU's
//! within these bounds. On both devices, subnormal arguments and results count as 0 (except for
//! `tanh`). [`accurate`](crate::accurate) has functions whose results are equal on both devices.
//!
//! ```
//! use device_std::fast;
//!
//! assert!((fast::exp2(0.5) - 2f32.sqrt()).abs() < 1e-6);
//! assert!((fast::tanh(0.1) - 0.1f32.tanh()).abs() < 1e-4);
//! let close = |value: f32, exact: f32| (value - exact).abs() < 1e-5 * exact.abs().max(1.0);
//! assert!(close(fast::exp(1.0), 1f32.exp()) && close(fast::ln(3.0), 3f32.ln()));
//! assert!(close(fast::log2(10.0), 10f32.log2()) && close(fast::pow(1.5, 2.5), 1.5f32.powf(2.5)));
//! assert!(close(fast::sin(1.0), 1f32.sin()) && close(fast::cos(1.0), 1f32.cos()));
//! assert!(close(fast::rsqrt(4.0), 0.5) && close(fast::rcp(8.0), 0.125));
//! assert!(close(fast::div(1.0, 3.0), 1.0 / 3.0) && close(fast::sqrt(2.0), 2f32.sqrt()));
//! ```

use crate::float::Float;

/// 2^x. On the device it is `ex2.approx.ftz.f32`: the error is at most 2 units in the last place,
/// and subnormal results are 0. On the host it is a polynomial with about the same error; results
/// from 2^127.5 on are infinite.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    return ex2(x);
    #[cfg(not(target_arch = "nvptx64"))]
    return exp2_polynomial(x);
}

/// e^x, within 2 units in the last place. The argument is clamped to [-87, 88]. The method is
/// nvcc's `expf`: the exponent bits give 2^n, and [`exp2`] gives the remaining factor.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // log2(e) has two parts, so that the product keeps its low bits.
    const LOG2_E_HIGH: f32 = f32::from_bits(0x3fb8_aa3b);
    const LOG2_E_LOW: f32 = 1.925_963e-8;
    let x = x.clamp(-87.0, 88.0);
    let t = Float::mul_add(x, core::f32::consts::LOG2_E, ROUND_AND_BIAS);
    let n = t - ROUND_AND_BIAS;
    let fraction = Float::mul_add(x, LOG2_E_HIGH, -n);
    let fraction = Float::mul_add(x, LOG2_E_LOW, fraction);
    small_exp2(fraction) * f32::from_bits(t.to_bits() << 23)
}

/// 1.5 · 2^23 + 127. Its addition rounds to an integer. The integer stands in the low bits, biased
/// as an exponent. So no conversion between float and integer is needed, which CPUs vectorise
/// badly.
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
    // As `ex2.approx.ftz`: subnormal results become 0, and results that are too large become
    // infinite.
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

/// Flushes a subnormal number to a 0 of the same sign, as the instructions with `.ftz` do to
/// arguments and results.
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

macro_rules! approximations {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) = $instruction:literal, |$($wide:ident),*| $exact:expr;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name($($argument: f32),*) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            return {
                let result: f32;
                // SAFETY: the instruction computes on registers, and touches no memory.
                unsafe {
                    core::arch::asm!(
                        concat!($instruction, " {}", $(approximations!(@operand $argument),)* ";"),
                        out(reg32) result, $(in(reg32) $argument,)*
                        options(pure, nomem, nostack)
                    );
                }
                result
            };
            #[cfg(not(target_arch = "nvptx64"))]
            {
                $(let $wide = f64::from(flushed($argument));)*
                flushed($exact as f32)
            }
        }
    )* };
    (@operand $argument:ident) => { ", {}" };
}

approximations! {
    /// The logarithm to base 2. For 0 it is -∞, for negative arguments a NaN.
    log2(x) = "lg2.approx.ftz.f32", |wide| wide.log2();
    /// The sine of `x` radians.
    sin(x) = "sin.approx.ftz.f32", |wide| wide.sin();
    /// The cosine of `x` radians.
    cos(x) = "cos.approx.ftz.f32", |wide| wide.cos();
    /// The square root.
    sqrt(x) = "sqrt.approx.ftz.f32", |wide| wide.sqrt();
    /// 1 / √x. For ±0 it is ±∞.
    rsqrt(x) = "rsqrt.approx.ftz.f32", |wide| 1.0 / wide.sqrt();
    /// 1 / x.
    rcp(x) = "rcp.approx.ftz.f32", |wide| 1.0 / wide;
    /// x / y.
    div(x, y) = "div.approx.ftz.f32", |dividend, divisor| dividend / divisor;
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    return {
        let result: f32;
        // SAFETY: the instruction computes on registers, and touches no memory.
        unsafe {
            core::arch::asm!("tanh.approx.f32 {}, {};", out(reg32) result, in(reg32) x, options(pure, nomem, nostack));
        }
        result
    };
    #[cfg(not(target_arch = "nvptx64"))]
    return f64::from(x).tanh() as f32;
}

/// The natural logarithm. For 0 it is -∞, for negative arguments a NaN.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    log2(x) * core::f32::consts::LN_2
}

/// `x` to the power of `y`, for positive `x`. For negative `x` the result is a NaN, for every `y`.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    exp2(y * log2(x))
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use crate::fast;

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
