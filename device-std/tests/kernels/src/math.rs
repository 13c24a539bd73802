//! Math, one function in each kernel, and 16-bit floats.

use device_std::prelude::*;
use device_std::{Bf16x2, F16x2, Half, accurate};
use half::{bf16, f16};

macro_rules! unary {
    ($($name:ident: $from:ident -> $to:ident, |$x:ident| $value:expr;)*) => { $(
        #[allow(missing_docs)]
        #[kernel]
        pub fn $name(i: Index1, input: &[$from], mut output: PerThread<$to>) {
            if let Some(out) = output.get_mut(i) {
                let $x = input[i.get()];
                *out = $value;
            }
        }
    )* };
}

unary! {
    fast_exp2: f32 -> f32, |x| fast::exp2(x);
    fast_exp: f32 -> f32, |x| fast::exp(x);
    fast_log2: f32 -> f32, |x| fast::log2(x);
    fast_ln: f32 -> f32, |x| fast::ln(x);
    fast_sin: f32 -> f32, |x| fast::sin(x);
    fast_cos: f32 -> f32, |x| fast::cos(x);
    fast_tanh: f32 -> f32, |x| fast::tanh(x);
    fast_sqrt: f32 -> f32, |x| fast::sqrt(x);
    fast_rsqrt: f32 -> f32, |x| fast::rsqrt(x);
    fast_rcp: f32 -> f32, |x| fast::rcp(x);

    accurate_exp: f32 -> f32, |x| accurate::exp(x);
    accurate_exp2: f32 -> f32, |x| accurate::exp2(x);
    accurate_ln: f32 -> f32, |x| accurate::ln(x);
    accurate_log2: f32 -> f32, |x| accurate::log2(x);
    accurate_sin: f32 -> f32, |x| accurate::sin(x);
    accurate_cos: f32 -> f32, |x| accurate::cos(x);
    accurate_tanh: f32 -> f32, |x| accurate::tanh(x);
    accurate_exp_f64: f64 -> f64, |x| accurate::exp(x);
    accurate_exp2_f64: f64 -> f64, |x| accurate::exp2(x);
    accurate_ln_f64: f64 -> f64, |x| accurate::ln(x);
    accurate_log2_f64: f64 -> f64, |x| accurate::log2(x);
    accurate_sin_f64: f64 -> f64, |x| accurate::sin(x);
    accurate_cos_f64: f64 -> f64, |x| accurate::cos(x);
    accurate_tanh_f64: f64 -> f64, |x| accurate::tanh(x);

    sqrt_f32: f32 -> f32, |x| Float::sqrt(x);
    floor_f32: f32 -> f32, |x| Float::floor(x);
    ceil_f32: f32 -> f32, |x| Float::ceil(x);
    trunc_f32: f32 -> f32, |x| Float::trunc(x);
    sqrt_f64: f64 -> f64, |x| Float::sqrt(x);
    floor_f64: f64 -> f64, |x| Float::floor(x);
    ceil_f64: f64 -> f64, |x| Float::ceil(x);
    trunc_f64: f64 -> f64, |x| Float::trunc(x);

    widen_f16: f16 -> f32, |x| x.widen();
    widen_bf16: bf16 -> f32, |x| x.widen();
    narrow_f16: f32 -> f16, |x| f16::narrow(x);
    narrow_bf16: f32 -> bf16, |x| bf16::narrow(x);
}

macro_rules! binary {
    ($($name:ident: $type:ident, |$x:ident, $y:ident| $value:expr;)*) => { $(
        #[allow(missing_docs)]
        #[kernel]
        pub fn $name(i: Index1, left: &[$type], right: &[$type], mut output: PerThread<$type>) {
            if let Some(out) = output.get_mut(i) {
                let ($x, $y) = (left[i.get()], right[i.get()]);
                *out = $value;
            }
        }
    )* };
}

binary! {
    fast_div: f32, |x, y| fast::div(x, y);
    fast_pow: f32, |x, y| fast::pow(x, y);
    accurate_pow: f32, |x, y| accurate::pow(x, y);
    accurate_pow_f64: f64, |x, y| accurate::pow(x, y);
    add_f16x2: F16x2, |x, y| x + y;
    sub_f16x2: F16x2, |x, y| x - y;
    mul_f16x2: F16x2, |x, y| x * y;
    add_bf16x2: Bf16x2, |x, y| x + y;
    sub_bf16x2: Bf16x2, |x, y| x - y;
    mul_bf16x2: Bf16x2, |x, y| x * y;
}

macro_rules! fused {
    ($($name:ident: $type:ident, |$x:ident, $y:ident, $z:ident| $value:expr;)*) => { $(
        /// x · y + z, rounded once.
        #[kernel]
        pub fn $name(i: Index1, x: &[$type], y: &[$type], z: &[$type], mut output: PerThread<$type>) {
            if let Some(out) = output.get_mut(i) {
                let ($x, $y, $z) = (x[i.get()], y[i.get()], z[i.get()]);
                *out = $value;
            }
        }
    )* };
}

fused! {
    mul_add_f32: f32, |x, y, z| Float::mul_add(x, y, z);
    mul_add_f64: f64, |x, y, z| Float::mul_add(x, y, z);
    mul_add_f16: f16, |x, y, z| Half::mul_add(x, y, z);
    mul_add_bf16: bf16, |x, y, z| Half::mul_add(x, y, z);
    mul_add_f16x2: F16x2, |x, y, z| x.mul_add(y, z);
    mul_add_bf16x2: Bf16x2, |x, y, z| x.mul_add(y, z);
}
