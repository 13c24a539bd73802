// H42 (macro): a crate that calls itself `core` has a `compile_error!` that does nothing, and a
// loop that `unroll!` refuses. The loop would be gone.
#![forbid(unsafe_code)]
extern crate self as core;
extern crate std as rust;
pub use rust::*;
#[macro_export]
macro_rules! compile_error {
    ($($anything:tt)*) => {};
}
pub fn sum(n: usize) -> usize {
    let mut sum = 0;
    device_std::unroll!(for k in 0..n {
        sum += k;
    });
    sum
}
