// H42 (lint): a crate that forbids `unsafe` declares a kernel of another compiler, and no one
// answers for what the kernel does.
// Twin: h01_foreign_kernel_reads_without_handoff
#![forbid(unsafe_code)]

cuda_rt::foreign_kernel! {
    /// Blurs rows of `width` elements.
    pub unsafe fn blur(input: &[f32], output: &mut [f32], width: u32) as Blur;
}

fn main() {}
