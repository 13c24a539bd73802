// H13 (E0277): the host reads what a kernel of another compiler writes, before its handoff.
// Twin: h01_foreign_kernel_reads_without_handoff
#![deny(unsafe_code)]
use cuda_rt::interop::ForeignGrid;
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream};
use kernels::Blur;

cuda_rt::streams! {
    Compute;
}

mod kernels {
    #![allow(unsafe_code, reason = "a declaration promises what the kernel does")]
    cuda_rt::foreign_kernel! {
        /// Blurs rows of `width` elements.
        pub unsafe fn blur(input: &[f32], output: &mut [f32], width: u32) as Blur;
    }
}

fn start(
    compute: &Stream<Compute>,
    blur: &Blur,
    frame: &DeviceBuffer<f32, Compute>,
    output: &mut PinnedBuffer<f32, Compute>,
) -> Result<f32, Error> {
    let grid = ForeignGrid::new([8, 1, 1], [32, 1, 1]);
    blur.launch(compute, grid, frame, compute.mapped_mut(output)?, 16)?;
    Ok(output[0])
}

fn main() {}
