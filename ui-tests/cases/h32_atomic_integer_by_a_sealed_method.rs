// H32 (E0133): an atomic operation of integers on an address of the program's own.
// Twin: h32_scatter_through_a_slice
// Through a bound: device_std::AtomicInteger
#![forbid(unsafe_code)]
use device_std::{AtomicInteger, BlockScope};

fn anywhere<T: AtomicInteger>(at: *mut T, value: T) -> T {
    T::fetch_max::<BlockScope>(at, value);
    T::fetch_min::<BlockScope>(at, value);
    T::fetch_and::<BlockScope>(at, value);
    T::fetch_or::<BlockScope>(at, value);
    T::fetch_xor::<BlockScope>(at, value);
    T::compare_exchange::<BlockScope>(at, value, value)
}

fn main() {}
