// H30 (E0277): no work is pending, but the memory is still the GPU's.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute
        .release(compute.alloc_zeroed::<f32>(1024)?)?
        .synchronize()?;
    println!("{}", frame[0]);
    Ok(())
}
