// H28 (E0308): a kernel of one dimension is launched over two, and threads of different rows share
// an index.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid2};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let input = compute.alloc_zeroed::<f32>(1024)?;
    let mut output = compute.alloc_zeroed::<f32>(1024)?;
    scale(&compute, Grid2::covering(32, 32), &input, &mut output, 2.0)
}
