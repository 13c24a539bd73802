// H32 (E0277): the number of an index opens the element of another thread.
// Twin: h32_scatter_through_a_slice
// Through a bound: device_std::Index
#![forbid(unsafe_code)]
use device_std::{Index, PerThread};

fn next<I: Index>(index: I, output: &mut PerThread<f32>) {
    if let Some(out) = output.get_mut(index.position() + 1) {
        *out = 0.0;
    }
}

fn main() {}
