//! Reductions, scans and votes of blocks.

use device_std::prelude::*;
use device_std::{And, Each, Max, Min, Or, Product, Sum, Xor};

use crate::warp::{Affine, Compose};

/// `reduced[b]` combines the values of block b. The first reduction shows that `scratch` can be
/// used again.
macro_rules! reductions {
    ($($name:ident: $type:ident, $operator:ty;)*) => { $(
        #[allow(missing_docs)]
        #[kernel(block = 96)]
        pub fn $name(mut block: Block, mut scratch: BlockUninit<$type, 3>, input: &[$type], mut reduced: PerBlock<$type>) {
            let mut value = block.map(|lane| input[lane.position()]);
            let first = block.reduce::<$operator, _, 3>(&mut scratch, &value);
            block.update(&mut value, |_, own| if *own == first { *own = first });
            let total = block.reduce::<$operator, _, 3>(&mut scratch, &value);
            reduced.set(&block, total);
        }
    )* };
}

reductions! {
    block_sum_u32: u32, Sum;
    block_sum_i64: i64, Sum;
    block_sum_f32: f32, Sum;
    block_sum_f64: f64, Sum;
    block_min_i32: i32, Min;
    block_max_u64: u64, Max;
    block_min_f32: f32, Min;
    block_max_f64: f64, Max;
    block_and_u32: u32, And;
    block_or_u64: u64, Or;
    block_xor_i32: i32, Xor;
    block_product_u32: u32, Product;
    block_each_max: Affine, Each<Max>;
    block_compose: Affine, Compose;
}

macro_rules! scans {
    ($($name:ident: $type:ident, $scan:ident, $operator:ty;)*) => { $(
        #[allow(missing_docs)]
        #[kernel(block = 96)]
        pub fn $name(
            mut block: Block,
            mut scratch: BlockUninit<$type, 4>,
            input: &[$type],
            output: PerThread<$type>,
            mut totals: PerBlock<$type>,
        ) {
            let value = block.map(|lane| input[lane.position()]);
            let (scanned, total) = block.$scan::<$operator, _, 4>(&mut scratch, &value);
            block.threads(|thread| {
                if let Some(index) = thread.index_in_launch() {
                    output.set(index, scanned.get(thread));
                }
            });
            totals.set(&block, total);
        }
    )* };
}

scans! {
    inclusive_sum_u32: u32, inclusive_scan, Sum;
    exclusive_sum_u64: u64, exclusive_scan, Sum;
    inclusive_sum_f32: f32, inclusive_scan, Sum;
    exclusive_max_i32: i32, exclusive_scan, Max;
    exclusive_min_f64: f64, exclusive_scan, Min;
    inclusive_compose: Affine, inclusive_scan, Compose;
    exclusive_compose: Affine, exclusive_scan, Compose;
}

/// For each block: whether any value is odd, whether all values are odd, and the number of odd
/// values. Block-level code branches on the results.
#[kernel(block = 96)]
pub fn votes(
    mut block: Block,
    input: &[u32],
    mut any: PerBlock<u32>,
    mut all: PerBlock<u32>,
    mut count: PerBlock<u32>,
) {
    let any_odd = block.any(|thread| input[thread.position()] % 2 == 1);
    let all_odd = block.all(|thread| input[thread.position()] % 2 == 1);
    let odd = block.count(|thread| input[thread.position()] % 2 == 1);
    if any_odd {
        block.threads(|_| ());
        any.set(&block, 1);
    }
    if all_odd {
        all.set(&block, 1);
    }
    count.set(&block, odd as u32);
}

/// Halves every value until all values of the block are 1 or less, and counts the rounds. All
/// threads agree on the end of the loop.
#[kernel(block = 96)]
pub fn rounds(mut block: Block, input: &[u32], mut counts: PerBlock<u32>) {
    let mut value = block.map(|lane| input[lane.position()]);
    let mut done = 0;
    while block.any(|thread| value.get(thread) > 1) {
        block.update(&mut value, |_, own| *own /= 2);
        done += 1;
    }
    counts.set(&block, done);
}

/// A block of two dimensions, with row-major thread indices: scans and sums the threads' positions
/// in the block.
#[kernel(block = (16, 4))]
pub fn block2_sum(
    mut block: Block2,
    mut scratch: BlockUninit<u32, 2>,
    mut sums: PerBlock<u32>,
    output: PerThread<u32>,
) {
    let value = block.map(|lane| (lane.y() * 16 + lane.x()) as u32);
    let (scanned, total) = block.exclusive_scan::<Sum, _, 2>(&mut scratch, &value);
    block.threads(|thread| {
        if let Some(index) = thread.index_in_launch() {
            output.set(index, scanned.get(thread));
        }
    });
    sums.set(&block, total);
}

/// Elements of the first array of [`large_shared_memory`].
pub const LARGE: usize = 20_000;
/// Elements of its second array.
pub const LARGE_WORDS: usize = 9_000;

/// Each thread reads from two arrays of 152,000 bytes together, which other threads wrote.
#[kernel(block = 256, handle = LargeSharedMemory)]
pub fn large_shared_memory(
    mut block: Block,
    numbers: BlockUninit<u32, LARGE>,
    words: BlockUninit<u64, LARGE_WORDS>,
    input: &[u32],
    output: PerThread<u64>,
) {
    let numbers = numbers.init(&mut block, |_, at| input[at % input.len()]);
    let words = words.init(&mut block, |_, at| at as u64 * 3);
    let (numbers, words) = (numbers.view(), words.view());
    block.threads(|thread| {
        if let Some(index) = thread.index_in_launch() {
            let at = index.get();
            let number = numbers.slice(thread)[at * 7919 % LARGE];
            output.set(
                index,
                u64::from(number) + words.slice(thread)[at * 31 % LARGE_WORDS],
            );
        }
    });
}
