use device_std::prelude::*;

device_std::kernel_module!("../../ptx/device_kernels.ptx");

#[kernel]
pub fn shout(i: Index1, mut output: PerThread<u32>, text: String) {
    if let Some(out) = output.get_mut(i) {
        *out = text.len() as u32;
    }
}

fn main() {}
