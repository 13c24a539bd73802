//! Fan-out and join: two streams upload and scale, a third adds their results, and each of the two
//! downloads half of the sum. One diamond at a time, so the host waits at the end of each.

pub(super) mod raw;
pub(super) mod tracked;
pub(super) mod typed;

use crate::rounds::{Check, Outcome};

pub(super) const LEN: usize = 8192;
const HALF: usize = LEN / 2;
/// Diamonds of one round.
pub(super) const ITEMS: u32 = 32;

/// The factors of the left and the right branch.
const FACTORS: [f32; 2] = [2.0, 3.0];

fn element(item: u32, side: usize, index: usize) -> f32 {
    (item % 500 + (index as u32 + 1) % 500 + side as u32 * 7 + 1) as f32
}

fn fill(check: Check, item: u32, side: usize, data: &mut [f32]) {
    // Both halves of the sum are looked at in each round.
    for half in data.chunks_mut(HALF).enumerate() {
        check.fill(half.1, |index| element(item, side, half.0 * HALF + index));
    }
}

/// Compares half `half` of the sum.
fn compare(check: Check, item: u32, half: usize, data: &[f32]) -> Outcome {
    let scaled = |side, index| element(item, side, half * HALF + index) * FACTORS[side];
    let compared = check.compare(data, |index| scaled(0, index) + scaled(1, index));
    compared.map_err(|error| format!("diamond {item}, half {half}: {error}").into())
}
