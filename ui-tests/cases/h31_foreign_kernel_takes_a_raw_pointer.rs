// H31 (macro): a kernel of another compiler is declared with a raw pointer, as it stands in C++.
// Twin: h01_foreign_kernel_reads_without_handoff
#![allow(unsafe_code, reason = "a declaration promises what the kernel does")]

cuda_rt::foreign_kernel! {
    /// Blurs rows of `width` elements.
    pub unsafe fn blur(input: *const f32, output: &mut [f32], width: u32) as Blur;
}

fn main() {}
