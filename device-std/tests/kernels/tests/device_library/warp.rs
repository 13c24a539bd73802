//! Shuffles, votes, reductions and scans of warps.

use cuda_rt::Grid1;
use half::f16;
use library_kernels::warp as kernels;

use crate::Compute;
use crate::devices::for_each_device;
use crate::harness::{
    Alike, COUNT, Sample, THREADS, assert_alike, assert_bits, download, groups, random, upload,
};

/// Inputs for all threads of the launch's blocks. The last block lies only partly inside the
/// launch.
fn inputs<T: Sample>() -> Vec<T> {
    T::samples(COUNT.next_multiple_of(THREADS))
}

/// Floats with both zeros, infinities, subnormals and NaNs; one warp has NaNs only.
fn special_floats() -> Vec<f64> {
    let special = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-310,
        f64::NAN,
        1.5,
        -2.5,
    ];
    let mut floats = inputs::<f64>();
    for (at, bits) in random(floats.len(), 11).enumerate() {
        if at / 32 == 1 {
            floats[at] = f64::NAN;
        } else if at / 32 == 2 {
            floats[at] = special[bits as usize % 2];
        } else if bits % 16 == 0 {
            floats[at] = special[(bits >> 8) as usize % special.len()];
        }
    }
    floats
}

/// Runs the kernel with the test's name. Compares each thread's result with `$expected` of the
/// warp's values and the lane.
macro_rules! lanes {
    ($assert:expr; $($name:ident($inputs:expr), |$warp:ident, $lane:ident| $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            let input = $inputs;
            let expected: Vec<_> = groups(&input, 32)
                .flat_map(|$warp| (0..32).map(move |$lane| $expected))
                .take(COUNT)
                .collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut output = stream.alloc_zeroed(COUNT).unwrap();
                kernels::$name(&stream, Grid1::covering(COUNT), &upload(&stream, &input), &mut output).unwrap();
                $assert(&download(&stream, &output), &expected);
            });
        }
    )* };
}

/// The lanes in which `holds` is true, as bits.
fn bits<T>(warp: &[T], holds: impl Fn(&T) -> bool) -> u32 {
    (0..32)
        .filter(|lane| holds(&warp[*lane]))
        .map(|lane| 1 << lane)
        .sum()
}

/// Combines pairs first, then fours, and so on.
fn tree<T: Copy>(values: &[T], combine: fn(T, T) -> T) -> T {
    match values {
        [value] => *value,
        _ => {
            let (left, right) = values.split_at(values.len() / 2);
            combine(tree(left, combine), tree(right, combine))
        }
    }
}

/// minNum of IEEE 754-2008, with -0 below +0: the smallest in total order, without NaNs.
fn smallest(values: &[f64]) -> f64 {
    let numbers = values.iter().copied().filter(|value| !value.is_nan());
    numbers
        .min_by(f64::total_cmp)
        .unwrap_or(f64::from_bits(0x7fff_ffff_ffff_ffff))
}

fn largest(values: &[f64]) -> f64 {
    let numbers = values.iter().copied().filter(|value| !value.is_nan());
    numbers
        .max_by(f64::total_cmp)
        .unwrap_or(f64::from_bits(0x7fff_ffff_ffff_ffff))
}

fn narrow(values: Vec<f64>) -> Vec<f32> {
    values.into_iter().map(|value| value as f32).collect()
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// Narrows a value; a NaN gets the hardware's bits.
fn narrowed(value: f64) -> f32 {
    if value.is_nan() {
        f32::from_bits(0x7fff_ffff)
    } else {
        value as f32
    }
}

fn compose(first: [u32; 2], then: [u32; 2]) -> [u32; 2] {
    let b = u64::from(first[1]) * u64::from(then[0]) + u64::from(then[1]);
    [(u64::from(first[0]) * u64::from(then[0])) as u32, b as u32]
}

lanes! {
    assert_bits;
    shuffle_down_u32(inputs::<u32>()), |warp, lane| warp[if lane + 5 < 32 { lane + 5 } else { lane }];
    shuffle_down_u64(inputs::<u64>()), |warp, lane| warp[(lane + 1).min(31)];
    shuffle_up_i32(inputs::<i32>()), |warp, lane| warp[if lane >= 3 { lane - 3 } else { lane }];
    shuffle_up_f64(special_floats()), |warp, lane| warp[if lane == 31 { 0 } else { lane }];
    shuffle_xor_f32(narrow(special_floats())), |warp, lane| warp[lane ^ 9];
    shuffle_xor_i64(inputs::<i64>()), |warp, lane| warp[lane ^ 16];
    shuffle_from_u32(inputs::<u32>()), |warp, _lane| warp[30];
    shuffle_from_f64(inputs::<f64>()), |warp, _lane| warp[0];
    shuffle_by_itself(inputs::<u32>()), |warp, lane| warp[warp[lane] as usize % 32];
    shuffle_triple(inputs::<[u32; 3]>()), |warp, lane| warp[lane ^ 1];
    shuffle_u16(inputs::<u16>()), |warp, lane| warp[(lane + 1).min(31)];
    shuffle_f16(inputs::<f16>()), |warp, lane| warp[(lane + 1).min(31)];

    ballot_odd(inputs::<u32>()), |warp, _lane| bits(warp, |value| value % 2 == 1);
    warp_any_large(inputs::<u32>()), |warp, _lane| u32::from(warp.iter().any(|value| *value > u32::MAX / 32));
    warp_all_large(inputs::<u32>()), |warp, _lane| u32::from(warp.iter().all(|value| *value > u32::MAX / 32));
    match_u32(inputs::<u32>()), |warp, lane| bits(warp, |value| value % 5 == warp[lane] % 5);
    match_i64(inputs::<i64>()), |warp, lane| bits(warp, |value| value >> 61 == warp[lane] >> 61);

    warp_sum_u32(inputs::<u32>()), |warp, _lane| warp.iter().map(|value| u64::from(*value)).sum::<u64>() as u32;
    warp_sum_i32(inputs::<i32>()), |warp, _lane| warp.iter().map(|value| i64::from(*value)).sum::<i64>() as i32;
    warp_min_u32(inputs::<u32>()), |warp, _lane| *warp.iter().min().unwrap();
    warp_max_u32(inputs::<u32>()), |warp, _lane| *warp.iter().max().unwrap();
    warp_min_i32(inputs::<i32>()), |warp, _lane| *warp.iter().min().unwrap();
    warp_max_i32(inputs::<i32>()), |warp, _lane| *warp.iter().max().unwrap();
    warp_and_u32(mostly_ones()), |warp, _lane| !bits32(warp, 0);
    warp_or_u32(mostly_ones().into_iter().map(|value| !value).collect::<Vec<u32>>()), |warp, _lane| bits32(warp, 1);
    warp_xor_u32(inputs::<u32>()), |warp, _lane| warp.iter().fold(0, |all, value| all ^ value);
    warp_and_u64(mostly_ones().into_iter().map(|value| u64::from(value) << 16).collect::<Vec<u64>>()),
        |warp, _lane| warp.iter().fold(u64::MAX, |all, value| all & value);
    warp_sum_u64(inputs::<u64>()), |warp, _lane| warp.iter().map(|value| u128::from(*value)).sum::<u128>() as u64;
    warp_min_i64(inputs::<i64>()), |warp, _lane| *warp.iter().min().unwrap();
    warp_sum_f32(inputs::<f32>()), |warp, _lane| tree(warp, |left, right| left + right);
    warp_sum_f64(inputs::<f64>()), |warp, _lane| tree(warp, |left, right| left + right);
    warp_product_i32(inputs::<i32>().into_iter().map(|value| value | 1).collect::<Vec<i32>>()),
        |warp, _lane| warp.iter().fold(1i64, |all, value| (all * i64::from(*value)) as i32 as i64) as i32;
    warp_each_sum(inputs::<[u32; 3]>()), |warp, _lane| {
        [0, 1, 2].map(|at| warp.iter().map(|value| u64::from(value[at])).sum::<u64>() as u32)
    };
    warp_compose(inputs::<[u32; 2]>()), |warp, _lane| warp.iter().copied().fold([1, 0], compose);

    warp_inclusive_sum_u32(inputs::<u32>()), |warp, lane| {
        warp[..=lane].iter().map(|value| u64::from(*value)).sum::<u64>() as u32
    };
    warp_exclusive_sum_u64(inputs::<u64>()), |warp, lane| {
        warp[..lane].iter().map(|value| u128::from(*value)).sum::<u128>() as u64
    };
    warp_inclusive_max_i32(inputs::<i32>()), |warp, lane| *warp[..=lane].iter().max().unwrap();
    warp_exclusive_min_f32(inputs::<f32>()), |warp, lane| {
        warp[..lane].iter().copied().fold(f32::INFINITY, f32::min)
    };
    warp_inclusive_compose(inputs::<[u32; 2]>()), |warp, lane| warp[..=lane].iter().copied().fold([1, 0], compose);

    lane_and_warp((0..COUNT.next_multiple_of(THREADS)).map(|at| at % THREADS / 32 * 100).map(|hundreds| hundreds as u32).collect::<Vec<_>>()),
        |warp, lane| warp[lane] + lane as u32;
}

/// As [`assert_bits`], except that a NaN may have another payload.
fn assert_values<T: Alike>(got: &[T], expected: &[T]) {
    assert_alike(got, expected, |at| format!("thread {at}"));
}

lanes! {
    assert_values;
    warp_min_f32(narrow(special_floats())), |warp, _lane| narrowed(smallest(&widen(warp)));
    warp_max_f32(narrow(special_floats())), |warp, _lane| narrowed(largest(&widen(warp)));
    warp_min_f64(special_floats()), |warp, _lane| smallest(warp);
    warp_max_f64(special_floats()), |warp, _lane| largest(warp);
}

/// Words with so many ones that a warp's conjunction is not zero.
fn mostly_ones() -> Vec<u32> {
    let zeros = |bits: u64| 1u32 << (bits % 32);
    inputs::<u64>()
        .into_iter()
        .map(|bits| !zeros(bits >> 5))
        .collect()
}

/// The bits that have the value `of` in some lane.
fn bits32(warp: &[u32], of: u32) -> u32 {
    (0..32)
        .filter(|bit| warp.iter().any(|value| value >> bit & 1 == of))
        .map(|bit| 1 << bit)
        .sum()
}

/// Lanes add in another order than a loop: each sum has five roundings.
#[test]
fn warp_inclusive_sum_f64() {
    let input = inputs::<f64>();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(COUNT).unwrap();
        kernels::warp_inclusive_sum_f64(
            &stream,
            Grid1::covering(COUNT),
            &upload(&stream, &input),
            &mut output,
        )
        .unwrap();
        for (at, got) in download(&stream, &output).into_iter().enumerate() {
            let values = &input[at / 32 * 32..=at];
            let (exact, magnitude): (f64, f64) =
                (values.iter().sum(), values.iter().map(|value| value.abs()).sum());
            assert!(
                (got - exact).abs() <= 37.0 * f64::EPSILON * magnitude,
                "{at}: {got} for {exact}"
            );
        }
    });
}
