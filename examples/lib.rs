//! Common parts of the examples, and the larger examples, so that tests can call them.

#![forbid(unsafe_code)]

pub mod choice;
pub mod cli;
pub mod denoise;
pub mod diamond;
pub mod interrupt;
pub mod serve;
pub mod y4m;

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
