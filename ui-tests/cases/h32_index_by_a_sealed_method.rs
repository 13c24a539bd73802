// H32 (E0133): an index is made of the position of another thread.
// Twin: h32_scatter_through_a_slice
// Through a bound: device_std::Dimensions
#![forbid(unsafe_code)]
use device_std::{Dimensions, Extent};

fn first<D: Dimensions>(extent: Extent) -> Option<D::Index<'static>> {
    let _number = D::position([0, 0]);
    D::index([0, 0], extent)
}

fn main() {}
