//! Attacks on `#[kernel]` by the program around it.

mod methods;
mod names;
