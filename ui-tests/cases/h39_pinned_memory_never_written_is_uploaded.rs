// H39 (E0277, E0308): pinned memory is copied to the device before anything was written to it.
// Twin: h39_kernel_returns_its_element
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let host = compute.adopt(gpu.pinned_uninit::<f32>(64)?)?;
    let mut frame = compute.alloc_zeroed::<f32>(64)?;
    compute.copy_to_device(&host, &mut frame)?;
    Ok(())
}
