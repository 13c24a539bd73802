//! Math. The errors of fast functions, compared with `f64`, are within the documented bounds. All
//! other functions are equal to the bit on all devices, and to plain Rust.

use cuda_rt::Grid1;
use device_std::{Bf16x2, F16x2, accurate, fast};
use half::{bf16, f16};
use library_kernels::math as kernels;

use crate::Compute;
use crate::devices::for_each_device;
use crate::harness::{Sample, assert_alike, assert_bits, download, random, upload};

const STEPS: usize = 20_000;

/// Numbers from `from` to `to`, in even steps.
fn even(from: f64, to: f64) -> Vec<f32> {
    (0..=STEPS)
        .map(|step| (from + (to - from) * step as f64 / STEPS as f64) as f32)
        .collect()
}

/// Positive numbers of all magnitudes. Neither the numbers nor their inverses are subnormal.
fn magnitudes() -> Vec<f32> {
    random(STEPS, 3)
        .map(|bits| 2f32.powi((bits % 250) as i32 - 125) * (1.0 + (bits >> 40) as f32 / (1 << 24) as f32))
        .collect()
}

/// Arguments at which functions of the hardware and of the CPU have special cases.
fn special() -> Vec<f32> {
    vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
        -1e-40,
        f32::MIN_POSITIVE,
    ]
}

/// Compares the kernel with the test's name to `$exact` in `f64`. The allowed error is `$bound` of
/// the argument and the exact value. For special arguments, the result must equal the function's
/// result on the host.
macro_rules! fast {
    ($($name:ident($arguments:expr), $host:path, |$x:ident| $exact:expr, |$value:ident| $bound:expr;)*) => { $(
        #[test]
        fn $name() {
            let (usual, special) = ($arguments, special());
            let input = [usual.as_slice(), &special].concat();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut output = stream.alloc_zeroed(input.len()).unwrap();
                let grid = Grid1::covering(input.len());
                kernels::$name(&stream, grid, &upload(&stream, &input), &mut output).unwrap();
                let output = download(&stream, &output);
                for (got, argument) in output.iter().zip(&usual) {
                    let $x = f64::from(*argument);
                    let $value: f64 = $exact;
                    let (error, bound) = ((f64::from(*got) - $value).abs(), $bound);
                    assert!(error <= bound, "of {argument}: {got} for {}, {error:e} over {bound:e}", $value);
                }
                for (got, argument) in output[usual.len()..].iter().zip(&special) {
                    let expected = $host(*argument);
                    let near = (got - expected).abs() <= 1e-3 * expected.abs();
                    let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                    // Near 0, a function with an absolute error may return 0.
                    let ($x, $value) = (f64::from(*argument), f64::from(expected));
                    let _ = $x;
                    let within = (f64::from(*got) - $value).abs() <= $bound;
                    assert!(same || within || near && *got != 0.0, "of {argument}: {got} for {expected}");
                }
            });
        }
    )* };
}

const ULP: f64 = f32::EPSILON as f64;

fn power(exponent: f64) -> f64 {
    exponent.exp2()
}

/// The bound for a logarithm: absolute around 1, relative elsewhere.
fn of_logarithm(x: f64, value: f64) -> f64 {
    if x > 0.5 && x < 2.0 {
        power(-22.0)
    } else {
        power(-22.0) * value.abs()
    }
}

fast! {
    fast_exp2(even(-125.0, 127.0)), fast::exp2, |x| x.exp2(), |value| 2.0 * ULP * value;
    fast_exp(even(-86.0, 87.0)), fast::exp, |x| x.exp(), |value| 2.0 * ULP * value;
    fast_log2([magnitudes(), even(0.4, 2.2)].concat()), fast::log2, |x| x.log2(), |value| of_logarithm(x, value);
    fast_ln([magnitudes(), even(0.4, 2.2)].concat()), fast::ln, |x| x.ln(), |value| of_logarithm(x, value) + ULP * value.abs();
    fast_sin(even(-std::f64::consts::TAU, std::f64::consts::TAU)), fast::sin, |x| x.sin(), |_value| power(-20.4);
    fast_cos(even(-std::f64::consts::TAU, std::f64::consts::TAU)), fast::cos, |x| x.cos(), |_value| power(-20.4);
    fast_tanh(even(-10.0, 10.0)), fast::tanh, |x| x.tanh(), |value| power(-11.0) * value.abs();
    fast_sqrt(magnitudes()), fast::sqrt, |x| x.sqrt(), |value| power(-22.0) * value;
    fast_rsqrt(magnitudes()), fast::rsqrt, |x| 1.0 / x.sqrt(), |value| power(-22.4) * value;
    fast_rcp(magnitudes()), fast::rcp, |x| 1.0 / x, |value| ULP * value;
}

#[test]
fn fast_div() {
    let divisors: Vec<f32> = random(STEPS, 5)
        .map(|bits| 2f32.powi((bits % 100) as i32 - 50) * (1.0 + (bits >> 40) as f32 / (1 << 24) as f32))
        .collect();
    let dividends = f32::samples(STEPS);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(STEPS).unwrap();
        let (left, right) = (upload(&stream, &dividends), upload(&stream, &divisors));
        kernels::fast_div(&stream, Grid1::covering(STEPS), &left, &right, &mut output).unwrap();
        for (got, (x, y)) in download(&stream, &output)
            .into_iter()
            .zip(dividends.iter().zip(&divisors))
        {
            let exact = f64::from(*x) / f64::from(*y);
            assert!(
                (f64::from(got) - exact).abs() <= 2.0 * ULP * exact.abs(),
                "{x} / {y}: {got} for {exact}"
            );
        }
    });
}

#[test]
fn fast_pow() {
    let bases = even(0.01, 30.0);
    let exponents: Vec<f32> = random(bases.len(), 9)
        .map(|bits| (bits % 2001) as f32 / 100.0 - 10.0)
        .collect();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(bases.len()).unwrap();
        let (left, right) = (upload(&stream, &bases), upload(&stream, &exponents));
        kernels::fast_pow(&stream, Grid1::covering(bases.len()), &left, &right, &mut output).unwrap();
        for (got, (x, y)) in download(&stream, &output)
            .into_iter()
            .zip(bases.iter().zip(&exponents))
        {
            let (x, y) = (f64::from(*x), f64::from(*y));
            let exact = x.powf(y);
            let bound = power(-22.0) * (1.0 + y.abs() * x.log2().abs().max(1.0)) * exact;
            assert!(
                (f64::from(got) - exact).abs() <= bound,
                "{x} ^ {y}: {got} for {exact}"
            );
        }
    });
}

/// Floats of all kinds, made from spread bit patterns.
fn all_kinds() -> Vec<f32> {
    random(STEPS, 13)
        .map(|bits| f32::from_bits((bits >> 32) as u32))
        .chain(special())
        .collect()
}

fn all_kinds_f64() -> Vec<f64> {
    let wide = special().into_iter().map(f64::from);
    random(STEPS, 17).map(f64::from_bits).chain(wide).collect()
}

/// The kernel with the test's name gives the host's result of `$expected`.
macro_rules! same {
    ($($name:ident($arguments:expr), |$x:ident| $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            let input = $arguments;
            let expected: Vec<_> = input.iter().map(|x| { let $x = *x; $expected }).collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut output = stream.alloc_zeroed(input.len()).unwrap();
                let grid = Grid1::covering(input.len());
                kernels::$name(&stream, grid, &upload(&stream, &input), &mut output).unwrap();
                assert_alike(&download(&stream, &output), &expected, |at| format!("{:?}", input[at]));
            });
        }
    )* };
}

fn bits16() -> impl Iterator<Item = u16> {
    0..=u16::MAX
}

/// For every 16-bit value: the value, the middle between it and the next value, and the floats
/// beside the middle.
fn around<T: Copy>(all: impl Iterator<Item = T>, wide: fn(T) -> f32, next: fn(f32) -> f32) -> Vec<f32> {
    all.flat_map(|value| {
        let value = wide(value);
        let middle = value + (next(value) - value) / 2.0;
        [value, middle, middle.next_up(), middle.next_down()]
    })
    .chain(all_kinds())
    .collect()
}

same! {
    accurate_exp(all_kinds()), |x| accurate::exp(x);
    accurate_exp2(all_kinds()), |x| accurate::exp2(x);
    accurate_ln(all_kinds()), |x| accurate::ln(x);
    accurate_log2(all_kinds()), |x| accurate::log2(x);
    accurate_sin(all_kinds()), |x| accurate::sin(x);
    accurate_cos(all_kinds()), |x| accurate::cos(x);
    accurate_tanh(all_kinds()), |x| accurate::tanh(x);
    accurate_exp_f64(all_kinds_f64()), |x| accurate::exp(x);
    accurate_exp2_f64(all_kinds_f64()), |x| accurate::exp2(x);
    accurate_ln_f64(all_kinds_f64()), |x| accurate::ln(x);
    accurate_log2_f64(all_kinds_f64()), |x| accurate::log2(x);
    accurate_sin_f64(all_kinds_f64()), |x| accurate::sin(x);
    accurate_cos_f64(all_kinds_f64()), |x| accurate::cos(x);
    accurate_tanh_f64(all_kinds_f64()), |x| accurate::tanh(x);

    sqrt_f32(all_kinds()), |x| x.sqrt();
    floor_f32(all_kinds()), |x| x.floor();
    ceil_f32(all_kinds()), |x| x.ceil();
    trunc_f32(all_kinds()), |x| x.trunc();
    sqrt_f64(all_kinds_f64()), |x| x.sqrt();
    floor_f64(all_kinds_f64()), |x| x.floor();
    ceil_f64(all_kinds_f64()), |x| x.ceil();
    trunc_f64(all_kinds_f64()), |x| x.trunc();

    widen_f16(bits16().map(f16::from_bits).collect::<Vec<_>>()), |x| x.to_f32();
    widen_bf16(bits16().map(bf16::from_bits).collect::<Vec<_>>()), |x| x.to_f32();
    narrow_f16(around(bits16().map(f16::from_bits), f16::to_f32, |x| x * (1.0 + 1.0 / 1024.0))), |x| f16::from_f32(x);
    narrow_bf16(around(bits16().map(bf16::from_bits), bf16::to_f32, |x| x * (1.0 + 1.0 / 128.0))), |x| bf16::from_f32(x);
}

/// The kernel with the test's name gives, for two arguments, the host's result of `$expected`.
macro_rules! same_of_two {
    ($($name:ident($left:expr, $right:expr), |$x:ident, $y:ident| $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            let (left, right) = ($left, $right);
            let expected: Vec<_> = left.iter().zip(&right).map(|(x, y)| { let ($x, $y) = (*x, *y); $expected }).collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut output = stream.alloc_zeroed(left.len()).unwrap();
                let (x, y) = (upload(&stream, &left), upload(&stream, &right));
                kernels::$name(&stream, Grid1::covering(left.len()), &x, &y, &mut output).unwrap();
                assert_alike(&download(&stream, &output), &expected, |at| format!("{:?}, {:?}", left[at], right[at]));
            });
        }
    )* };
}

/// Narrows an exact result. Sums and products of 16-bit floats are exact in `f64`, except for sums
/// of far-off exponents, and there the first bits decide the rounding.
fn f16_of(value: f64) -> f16 {
    f16::from_f32(value as f32)
}

/// Narrows by the definition: picks the neighbour that is nearer to the exact value, which `f64`
/// holds.
fn bf16_of(value: f64) -> bf16 {
    let guess = bf16::from_f32(value as f32);
    if !guess.is_finite() {
        return guess;
    }
    let neighbours = [
        guess.to_bits().wrapping_sub(1),
        guess.to_bits(),
        guess.to_bits().wrapping_add(1),
    ];
    let distance = |bits: u16| (bf16::from_bits(bits).to_f64() - value).abs();
    let best = neighbours
        .into_iter()
        .filter(|bits| bits & 0x8000 == guess.to_bits() & 0x8000 && bf16::from_bits(*bits).is_finite())
        .min_by(|left, right| {
            distance(*left)
                .total_cmp(&distance(*right))
                .then((left & 1).cmp(&(right & 1)))
        });
    bf16::from_bits(best.expect("the guess itself"))
}

fn f16_pairs(seed: u64) -> Vec<F16x2> {
    let halves = |bits: u64| {
        F16x2::new(
            f16::from_bits((bits >> 48) as u16),
            f16::from_bits((bits >> 32) as u16),
        )
    };
    random(STEPS, seed).map(halves).collect()
}

/// Pairs with exponents near each other, so that both parts count in a sum, and the sum is exact in
/// `f64`.
fn bf16_pairs(seed: u64) -> Vec<Bf16x2> {
    let near = |bits: u16| bf16::from_bits((bits & 0x87ff) | 0x3c00);
    let halves = |bits: u64| Bf16x2::new(near((bits >> 48) as u16), near((bits >> 32) as u16));
    random(STEPS, seed).map(halves).collect()
}

fn each_f16(x: F16x2, y: F16x2, f: fn(f64, f64) -> f64) -> F16x2 {
    let of = |x: f16, y: f16| f16_of(f(x.into(), y.into()));
    F16x2::new(of(x.low(), y.low()), of(x.high(), y.high()))
}

fn each_bf16(x: Bf16x2, y: Bf16x2, f: fn(f64, f64) -> f64) -> Bf16x2 {
    let of = |x: bf16, y: bf16| bf16_of(f(x.into(), y.into()));
    Bf16x2::new(of(x.low(), y.low()), of(x.high(), y.high()))
}

same_of_two! {
    accurate_pow(all_kinds(), all_kinds().into_iter().rev().collect::<Vec<_>>()), |x, y| accurate::pow(x, y);
    accurate_pow_f64(all_kinds_f64(), all_kinds_f64().into_iter().rev().collect::<Vec<_>>()), |x, y| accurate::pow(x, y);
    add_f16x2(f16_pairs(1), f16_pairs(2)), |x, y| each_f16(x, y, |x, y| x + y);
    sub_f16x2(f16_pairs(3), f16_pairs(4)), |x, y| each_f16(x, y, |x, y| x - y);
    mul_f16x2(f16_pairs(5), f16_pairs(6)), |x, y| each_f16(x, y, |x, y| x * y);
    add_bf16x2(bf16_pairs(1), bf16_pairs(2)), |x, y| each_bf16(x, y, |x, y| x + y);
    sub_bf16x2(bf16_pairs(3), bf16_pairs(4)), |x, y| each_bf16(x, y, |x, y| x - y);
    mul_bf16x2(bf16_pairs(5), bf16_pairs(6)), |x, y| each_bf16(x, y, |x, y| x * y);
}

/// The kernel with the test's name gives, for three arguments, the host's result of `$expected`.
macro_rules! fused {
    ($($name:ident($x:expr, $y:expr, $z:expr), |$a:ident, $b:ident, $c:ident| $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            let (x, y, z) = ($x, $y, $z);
            let all = || x.iter().copied().zip(y.iter().copied()).zip(z.iter().copied());
            let expected: Vec<_> = all().map(|(($a, $b), $c)| $expected).collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut output = stream.alloc_zeroed(x.len()).unwrap();
                let (x, y, z) = (upload(&stream, &x), upload(&stream, &y), upload(&stream, &z));
                kernels::$name(&stream, Grid1::covering(x.len()), &x, &y, &z, &mut output).unwrap();
                assert_alike(&download(&stream, &output), &expected, |at| format!("{:?}", all().nth(at)));
            });
        }
    )* };
}

fn f16s(seed: u64) -> Vec<f16> {
    f16_pairs(seed).into_iter().map(F16x2::low).collect()
}

fn bf16s(seed: u64) -> Vec<bf16> {
    bf16_pairs(seed).into_iter().map(Bf16x2::low).collect()
}

/// Rounds to odd in single precision first: two roundings to nearest give a wrong result for some
/// arguments.
fn fused_f16(x: f16, y: f16, z: f16) -> f16 {
    let (product, z) = (f64::from(x) * f64::from(y), f64::from(z));
    // Products have 22 bits, from 2^-48 to 2^32, and `z` has 11 bits. So the bits that a sum loses
    // beyond 53 bits never decide a rounding.
    let sum = product + z;
    let nearest = sum as f32;
    if !nearest.is_finite() || f64::from(nearest) == sum || nearest.to_bits() & 1 == 1 {
        return f16::from_f32(nearest);
    }
    f16::from_f32(if f64::from(nearest) < sum {
        nearest.next_up()
    } else {
        nearest.next_down()
    })
}

fn fused_bf16(x: bf16, y: bf16, z: bf16) -> bf16 {
    bf16_of(f64::from(x) * f64::from(y) + f64::from(z))
}

fused! {
    mul_add_f32(all_kinds(), f32::samples(STEPS + special().len()), all_kinds().into_iter().rev().collect::<Vec<_>>()),
        |x, y, z| x.mul_add(y, z);
    mul_add_f64(f64::samples(STEPS), all_kinds_f64()[..STEPS].to_vec(), f64::samples(STEPS).into_iter().rev().collect::<Vec<_>>()),
        |x, y, z| x.mul_add(y, z);
    mul_add_f16(f16s(21), f16s(22), f16s(23)), |x, y, z| fused_f16(x, y, z);
    mul_add_bf16(bf16s(21), bf16s(22), bf16s(23)), |x, y, z| fused_bf16(x, y, z);
    mul_add_f16x2(f16_pairs(31), f16_pairs(32), f16_pairs(33)), |x, y, z| F16x2::new(
        fused_f16(x.low(), y.low(), z.low()),
        fused_f16(x.high(), y.high(), z.high())
    );
    mul_add_bf16x2(bf16_pairs(31), bf16_pairs(32), bf16_pairs(33)), |x, y, z| Bf16x2::new(
        fused_bf16(x.low(), y.low(), z.low()),
        fused_bf16(x.high(), y.high(), z.high())
    );
}

/// Values near 1 differ in their last bits only. The values of the tests above hardly ever tie.
#[test]
fn ties_of_16_bits_go_to_even() {
    let around = |bits: u16| {
        (0..64)
            .map(move |at| bf16::from_bits(bits + at))
            .collect::<Vec<_>>()
    };
    let pairs: Vec<(bf16, bf16)> = around(0x3f80)
        .into_iter()
        .flat_map(|x| around(0x3b80).into_iter().map(move |y| (x, y)))
        .collect();
    let (x, y): (Vec<_>, Vec<_>) = pairs
        .iter()
        .map(|(x, y)| (Bf16x2::splat(*x), Bf16x2::splat(*y)))
        .unzip();
    let expected: Vec<_> = x
        .iter()
        .zip(&y)
        .map(|(x, y)| each_bf16(*x, *y, |x, y| x + y))
        .collect();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(x.len()).unwrap();
        let (x, y) = (upload(&stream, &x), upload(&stream, &y));
        kernels::add_bf16x2(&stream, Grid1::covering(x.len()), &x, &y, &mut output).unwrap();
        assert_bits(&download(&stream, &output), &expected);
    });
}
