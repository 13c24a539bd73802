// H01 (E0277): a kernel of another compiler reads a buffer that another stream may be writing.
#![deny(unsafe_code)]
use cuda_rt::interop::ForeignGrid;
use cuda_rt::{DeviceBuffer, Error, Stream};
use kernels::Blur;

cuda_rt::streams! {
    Compute;
    Download;
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
    frame: &DeviceBuffer<f32, Download>,
    output: &mut DeviceBuffer<f32, Compute>,
) -> Result<(), Error> {
    blur.launch(compute, ForeignGrid::new([8, 1, 1], [32, 1, 1]), frame, output, 16)
}

fn main() {}
