// H32 (E0451): an index is made of the coordinates of another.
// Twin: h32_scatter_through_a_slice
// Through a bound: device_std::PlaneIndex
#![forbid(unsafe_code)]
use device_std::{Index2, PlaneIndex};

fn below<'k, I: PlaneIndex>(index: I) -> Index2<'k> {
    let (x, y, width) = index.plane();
    Index2 {
        x,
        y: y + 1,
        width,
        _brand: std::marker::PhantomData,
    }
}

fn main() {}
