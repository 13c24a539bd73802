//! A graph replayed: a chain of 20 small kernels, captured once, replayed many times.
//!
//! The first kernel doubles the data, so the result shows how often the graph ran.

pub(super) mod raw;
pub(super) mod tracked;
pub(super) mod typed;

use crate::rounds::{Check, Outcome};

pub(super) const LEN: usize = 1024;
/// Launches of the graph: an even number, so that the data end where they began.
pub(super) const LAUNCHES: usize = 20;
/// Replays of one round. The elements stay within `f32`, which has them exactly.
pub(super) const REPLAYS: u32 = 48;
/// Replays of one burst.
const BURST: u32 = 16;

fn factor(launch: usize) -> f32 {
    if launch == 0 { 2.0 } else { 1.0 }
}

fn first() -> Vec<f32> {
    (0..LEN).map(|index| (index % 1000 + 1) as f32).collect()
}

fn compare(check: Check, replays: u32, data: &[f32]) -> Outcome {
    check.compare(data, |index| {
        (index % 1000 + 1) as f32 * 2.0_f32.powi(replays as i32)
    })
}
