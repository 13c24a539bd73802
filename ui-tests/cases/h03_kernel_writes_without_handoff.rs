// H03 (E0277): a kernel writes a buffer that the download may still be reading.
// Twin: h01_kernel_reads_without_handoff
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let input = compute.alloc_zeroed::<f32>(1024)?;
    let mut output = download.alloc_zeroed::<f32>(1024)?;
    scale(&compute, Grid1::covering(1024), &input, &mut output, 2.0)
}
