//! Small items in a pipeline: 16 KiB up, four launches, 16 KiB down, on three streams, with four
//! slots.
//!
//! The device needs microseconds for an item, so the host's time shows. The host writes an item
//! when its slot's last result was read.

pub(super) mod pipeline;
pub(super) mod raw;
pub(super) mod tracked;
pub(super) mod typed;

use crate::rounds::{Check, Outcome};

pub(super) const LEN: usize = 4096;
pub(super) const SLOTS: usize = 4;
/// Items of one round.
pub(super) const ITEMS: u32 = 64;

/// Each of the four launches doubles the elements.
const FACTOR: f32 = 2.0;

fn element(item: u32, index: usize) -> f32 {
    (item % 1000 + index as u32 % 1000 + 1) as f32
}

fn fill(check: Check, item: u32, data: &mut [f32]) {
    check.fill(data, |index| element(item, index));
}

fn compare(check: Check, item: u32, data: &[f32]) -> Outcome {
    let expected = |index| element(item, index) * FACTOR.powi(4);
    let compared = check.compare(data, expected);
    compared.map_err(|error| format!("item {item}: {error}").into())
}
