// H08 (E0596): weights that everyone reads for ever are written.
#![forbid(unsafe_code)]
use cuda_rt::{Constant, Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let weights = compute.release(compute.alloc_zeroed::<f32>(1024)?)?.synchronize()?;
    let weights = download.adopt(Constant::new(weights))?;
    download.fill(&mut weights.view(), 1.0)?;
    Ok(())
}
