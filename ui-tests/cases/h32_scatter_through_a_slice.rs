// H32 (macro): two threads of a kernel add to one element of a `&mut [u32]`.
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn count(i: Index1, values: &[u32], bins: &mut [u32]) {
    bins[values[i.get()] as usize] += 1;
}

fn main() {}
