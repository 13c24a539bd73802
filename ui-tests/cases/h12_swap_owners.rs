// H12 (E0308): buffers of two streams change places, and each stream would use the other's.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut one = compute.alloc_zeroed::<f32>(1024)?;
    let mut two = download.alloc_zeroed::<f32>(1024)?;
    std::mem::swap(&mut one, &mut two);
    Ok(())
}
