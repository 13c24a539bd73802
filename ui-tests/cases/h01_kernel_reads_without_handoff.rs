// H01 (E0277): a kernel reads an upload that may not be over.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    let input = upload.alloc_zeroed::<f32>(1024)?;
    let mut output = compute.alloc_zeroed::<f32>(1024)?;
    scale(&compute, Grid1::covering(1024), &input, &mut output, 2.0)
}
