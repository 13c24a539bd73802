//! Shuffles, votes, reductions and scans of warps. Each kernel reads one value and writes one value
//! in each thread.

use device_std::prelude::*;
use device_std::{And, Each, Max, Min, Operator, Or, Product, Sum, Xor};

/// `output[i]` is thread i's value of `$result`, computed from `input[i]` as `$value`.
macro_rules! lanes {
    ($($name:ident: $from:ident -> $to:ident, |$block:ident, $value:ident| $result:expr;)*) => { $(
        #[allow(missing_docs)]
        #[kernel(block = 96)]
        pub fn $name(mut $block: Block, input: &[$from], output: PerThread<$to>) {
            let $value = $block.map(|lane| input[lane.position()]);
            let result = $result;
            $block.threads(|thread| {
                if let Some(index) = thread.index_in_launch() {
                    output.set(index, result.get(thread));
                }
            });
        }
    )* };
}

/// Three words, exchanged as one.
pub type Triple = [u32; 3];
/// A half-precision float, exchanged in half a word.
pub type F16 = half::f16;

lanes! {
    shuffle_down_u32: u32 -> u32, |block, value| block.shuffle_down(&value, 5);
    shuffle_down_u64: u64 -> u64, |block, value| block.shuffle_down(&value, 1);
    shuffle_up_i32: i32 -> i32, |block, value| block.shuffle_up(&value, 3);
    shuffle_up_f64: f64 -> f64, |block, value| block.shuffle_up(&value, 31);
    shuffle_xor_f32: f32 -> f32, |block, value| block.shuffle_xor(&value, 9);
    shuffle_xor_i64: i64 -> i64, |block, value| block.shuffle_xor(&value, 16);
    shuffle_from_u32: u32 -> u32, |block, value| block.shuffle_from(&value, 30);
    shuffle_from_f64: f64 -> f64, |block, value| block.shuffle_from(&value, 0);
    shuffle_by_itself: u32 -> u32, |block, value| block.shuffle(&value, &value);
    shuffle_triple: Triple -> Triple, |block, value| block.shuffle_xor(&value, 1);
    shuffle_u16: u16 -> u16, |block, value| block.shuffle_down(&value, 1);
    shuffle_f16: F16 -> F16, |block, value| block.shuffle_down(&value, 1);

    ballot_odd: u32 -> u32, |block, value| block.ballot(|lane| value.get(lane) % 2 == 1);
    warp_any_large: u32 -> u32, |block, value| {
        let any = block.warp_any(|lane| value.get(lane) > u32::MAX / 32);
        block.map(|lane| u32::from(any.get(lane)))
    };
    warp_all_large: u32 -> u32, |block, value| {
        let all = block.warp_all(|lane| value.get(lane) > u32::MAX / 32);
        block.map(|lane| u32::from(all.get(lane)))
    };
    match_u32: u32 -> u32, |block, value| {
        let value = block.map(|lane| value.get(lane) % 5);
        block.warp_match(&value)
    };
    match_i64: i64 -> u32, |block, value| {
        let value = block.map(|lane| value.get(lane) >> 61);
        block.warp_match(&value)
    };

    warp_sum_u32: u32 -> u32, |block, value| block.warp_reduce::<Sum, _>(&value);
    warp_sum_i32: i32 -> i32, |block, value| block.warp_reduce::<Sum, _>(&value);
    warp_min_u32: u32 -> u32, |block, value| block.warp_reduce::<Min, _>(&value);
    warp_max_u32: u32 -> u32, |block, value| block.warp_reduce::<Max, _>(&value);
    warp_min_i32: i32 -> i32, |block, value| block.warp_reduce::<Min, _>(&value);
    warp_max_i32: i32 -> i32, |block, value| block.warp_reduce::<Max, _>(&value);
    warp_and_u32: u32 -> u32, |block, value| block.warp_reduce::<And, _>(&value);
    warp_or_u32: u32 -> u32, |block, value| block.warp_reduce::<Or, _>(&value);
    warp_xor_u32: u32 -> u32, |block, value| block.warp_reduce::<Xor, _>(&value);
    warp_and_u64: u64 -> u64, |block, value| block.warp_reduce::<And, _>(&value);
    warp_sum_u64: u64 -> u64, |block, value| block.warp_reduce::<Sum, _>(&value);
    warp_min_i64: i64 -> i64, |block, value| block.warp_reduce::<Min, _>(&value);
    warp_sum_f32: f32 -> f32, |block, value| block.warp_reduce::<Sum, _>(&value);
    warp_min_f32: f32 -> f32, |block, value| block.warp_reduce::<Min, _>(&value);
    warp_max_f32: f32 -> f32, |block, value| block.warp_reduce::<Max, _>(&value);
    warp_sum_f64: f64 -> f64, |block, value| block.warp_reduce::<Sum, _>(&value);
    warp_min_f64: f64 -> f64, |block, value| block.warp_reduce::<Min, _>(&value);
    warp_max_f64: f64 -> f64, |block, value| block.warp_reduce::<Max, _>(&value);
    warp_product_i32: i32 -> i32, |block, value| block.warp_reduce::<Product, _>(&value);
    warp_each_sum: Triple -> Triple, |block, value| block.warp_reduce::<Each<Sum>, _>(&value);
    warp_compose: Affine -> Affine, |block, value| block.warp_reduce::<Compose, _>(&value);

    warp_inclusive_sum_u32: u32 -> u32, |block, value| block.warp_inclusive_scan::<Sum, _>(&value);
    warp_exclusive_sum_u64: u64 -> u64, |block, value| block.warp_exclusive_scan::<Sum, _>(&value);
    warp_inclusive_max_i32: i32 -> i32, |block, value| block.warp_inclusive_scan::<Max, _>(&value);
    warp_exclusive_min_f32: f32 -> f32, |block, value| block.warp_exclusive_scan::<Min, _>(&value);
    warp_inclusive_sum_f64: f64 -> f64, |block, value| block.warp_inclusive_scan::<Sum, _>(&value);
    warp_inclusive_compose: Affine -> Affine, |block, value| block.warp_inclusive_scan::<Compose, _>(&value);

    lane_and_warp: u32 -> u32, |block, value| {
        block.map(|lane| value.get(lane) / u32::MAX + (lane.warp() * 100 + lane.lane()) as u32)
    };
}

/// x ↦ a · x + b, modulo 2^32, as [a, b].
pub type Affine = [u32; 2];

/// Composition of two functions: associative, and not commutative.
pub enum Compose {}

impl Operator<Affine> for Compose {
    const IDENTITY: Affine = [1, 0];
    fn combine(first: Affine, then: Affine) -> Affine {
        [
            first[0].wrapping_mul(then[0]),
            first[1].wrapping_mul(then[0]).wrapping_add(then[1]),
        ]
    }
}
