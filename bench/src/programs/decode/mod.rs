//! A decoder: each chunk takes a long chain of small launches, depends on the chunk before it, and
//! is copied and downloaded at once, on a second stream, with two slots.
//!
//! The first launch of a chunk doubles the state and the others leave it, so each chunk shows
//! whether all chunks before it were decoded once.

pub(super) mod raw;
pub(super) mod tracked;
pub(super) mod typed;

use crate::rounds::{Check, Outcome};

pub(super) const LEN: usize = 4096;
pub(super) const SLOTS: usize = 2;
/// Launches of one chunk: an even number, so that the state ends where it began.
pub(super) const LAUNCHES: usize = 64;
/// Chunks of one round. The elements stay within `f32`, which has them exactly.
pub(super) const CHUNKS: u32 = 16;

fn factor(launch: usize) -> f32 {
    if launch == 0 { 2.0 } else { 1.0 }
}

fn first() -> Vec<f32> {
    (0..LEN).map(|index| (index % 1000 + 1) as f32).collect()
}

fn compare(check: Check, chunk: u32, data: &[f32]) -> Outcome {
    let expected = |index: usize| (index % 1000 + 1) as f32 * 2.0_f32.powi(chunk as i32 + 1);
    let compared = check.compare(data, expected);
    compared.map_err(|error| format!("chunk {chunk}: {error}").into())
}
