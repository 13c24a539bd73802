// H12 (E0133): ownership is transmuted from one stream to another.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let frame: DeviceBuffer<f32, Download> = std::mem::transmute(frame);
    drop((frame, download));
    Ok(())
}
