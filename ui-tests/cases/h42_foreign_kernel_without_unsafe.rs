// H42 (lint): a kernel of another compiler is declared, and no one answers for what it does.
// Twin: h01_foreign_kernel_reads_without_handoff
#![forbid(unsafe_code)]

cuda_rt::foreign_kernel! {
    /// Blurs rows of `width` elements.
    pub fn blur(input: &[f32], output: &mut [f32], width: u32) as Blur;
}

fn main() {}
