// H13 (E0277): a stream writes write-combined memory, which is for uploads.
// Twin: h14_write_combined_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let data = compute.alloc_zeroed::<f32>(1024)?;
    let mut frame = compute.adopt(gpu.write_combined::<f32>(1024)?)?;
    compute.copy_to_host(&data, &mut frame)?;
    compute.fill(compute.mapped_mut(&mut frame)?, 1.0)?;
    Ok(())
}
