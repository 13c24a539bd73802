// H32 (E0133): an atomic operation on an address of the program's own.
// Twin: h32_scatter_through_a_slice
// Through a bound: device_std::AtomicElement
#![forbid(unsafe_code)]
use device_std::{AtomicElement, BlockScope};

fn anywhere<T: AtomicElement>(at: *mut T) -> T {
    let value = T::load::<BlockScope>(at);
    T::store::<BlockScope>(at, value);
    T::fetch_add::<BlockScope>(at, value);
    T::swap::<BlockScope>(at, value)
}

fn main() {}
