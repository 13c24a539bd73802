// H37 (E0277): a stream reads what the copy of another has not delivered yet.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
    Copies;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let there = Device::open_gpu::<1>()?.stream::<Compute<Gpu<1>>>()?;
    let (compute, copies) = (gpu.stream::<Compute>()?, gpu.stream::<Copies>()?);
    let frame = there.release(there.alloc_zeroed::<f32>(1024)?)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let frame = copies.copy_from_peer(frame, .., &mut here)?;
    let mut next = compute.alloc_zeroed::<f32>(1024)?;
    compute.copy(&here, &mut next)?;
    drop(frame);
    Ok(())
}
