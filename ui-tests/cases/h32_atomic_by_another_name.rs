// H32 (E0080): what the kernel calls `PerThread` is an atomic, whose elements all threads use.
// Twin: h32_scatter_through_a_slice
#![forbid(unsafe_code)]
use device_std::prelude::{Index1, kernel};

device_std::kernel_module!("none.ptx");

type PerThread<'k, T> = device_std::Atomic<'k, T>;

#[kernel]
pub fn count(i: Index1, output: PerThread<u32>) {
    output.fetch_add(&i, 0, 1);
}

fn main() {}
