// H31 (E0080): a GPU has no parameter for a type of no size, and would take each later argument for
// the one before.
// Twin: h31_struct_without_repr_c
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, Element)]
#[repr(C)]
pub struct Tag {
    pub none: [u32; 0],
}

#[kernel]
pub fn poke(i: Index1, _tag: Tag, _address: u64, mut out: PerThread<u32>) {
    if let Some(out) = out.get_mut(i) {
        *out = 0xdead_beef;
    }
}

fn main() {}
