// H11 (E0502): a copy whose source and destination overlap.
// Twin: h11_overlapping_views
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.copy(&frame[..600], &mut frame[400..1000])
}
