// H42 (lint): `#[kernel]` names `::cuda_rt`, which is this program, and its macros say which PTX
// and which entry the kernel is.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
extern crate cuda_rt as real;
extern crate self as cuda_rt;

use device_std::prelude::*;
pub use real::*;

device_std::kernel_module!("none.ptx");

#[macro_export]
macro_rules! __module {
    ($path:expr) => {
        pub static __CUDA_RT_MODULE: real::kernel::ModuleImage =
            unsafe { real::kernel::ModuleImage::new("", "") };
    };
}

#[macro_export]
macro_rules! __kernel {
    ($kernel:ident, $name:literal, $($rest:tt)*) => {
        struct $kernel;
        impl real::kernel::OutputOf<1> for $kernel {
            type Element = u32;
            type At<'k> = PerThread<'k, u32>;
        }
        unsafe impl real::kernel::Signature for $kernel {
            type Position = real::kernel::Threads1;
            type Parameters = (real::kernel::Output<$kernel, 1>, ());
            const BLOCK: Option<[u32; 2]> = None;
            fn kernel() -> &'static real::kernel::Kernel {
                loop {}
            }
        }
    };
}

#[device_std::kernel]
pub fn count(i: Index1, mut output: PerThread<u32>) {
    if let Some(output) = output.get_mut(i) {
        *output = 1;
    }
}

fn main() {}
