//! A loop that may run for ever.

use device_std::prelude::*;

/// Runs for ever, unless `m` is the index of an element. LLVM concludes this from the loop's exit,
/// and drops the check of `m` behind the loop.
#[kernel]
pub fn endless(i: Index1, output: Atomic<u32>, n: u32, m: u32) {
    let len = output.len();
    let mut y = n ^ i.get() as u32;
    while y as usize >= len || y != m {
        y = y.wrapping_mul(5).wrapping_add(1);
    }
    output.store(&i, m as usize, 7);
}
