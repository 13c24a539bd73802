//! Denoises a video end to end, with reading, upload, compute, download and writing all busy at once.

pub mod args;
pub mod clip;
pub mod failure;
pub mod output;
pub mod report;
