// H32 (E0803): what the kernel calls `PerThread` outlives the launch, so a kernel can keep it.
// Twin: h32_scatter_through_a_slice
#![forbid(unsafe_code)]
use device_std::prelude::{Index1, kernel};

device_std::kernel_module!("none.ptx");

type PerThread<'k, T> = device_std::PerThread<'static, T>;

#[kernel]
pub fn keep(i: Index1, mut output: PerThread<u32>) {
    if let Some(place) = output.get_mut(i) {
        *place = 1;
    }
}

fn main() {}
