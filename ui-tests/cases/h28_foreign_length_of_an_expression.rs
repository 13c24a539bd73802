// H28 (macro): a number that is no slice's length is to be filled in at each launch.
// Twin: h01_foreign_kernel_reads_without_handoff
#![allow(unsafe_code, reason = "a declaration promises what the kernel does")]

cuda_rt::foreign_kernel! {
    /// Blurs rows of `width` elements, four at once.
    pub unsafe fn blur(input: &[f32], output: &mut [f32], chunks: u32 = output.len() / 4) as Blur;
}

fn main() {}
