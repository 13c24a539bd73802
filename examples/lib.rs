//! What the examples share, and the examples themselves, so that tests can call them.

#![forbid(unsafe_code)]

pub mod cli;
pub mod denoise;
pub mod y4m;
