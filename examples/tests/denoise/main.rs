//! The example `denoise`: its results, its overlap, its failures, and the program as a user meets
//! it.
#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
mod failures;
mod overlap;
mod program;
mod results;
