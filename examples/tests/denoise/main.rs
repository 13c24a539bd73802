//! Tests of the example `denoise`: its results, its overlap, its failures, and the program as users
//! run it.
#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
mod failures;
mod overlap;
mod program;
mod results;
mod shown;
#[cfg(unix)]
mod signals;
