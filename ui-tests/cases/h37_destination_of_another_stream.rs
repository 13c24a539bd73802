// H37 (E0277): a copy writes memory that another stream of the same GPU still uses.
// Twin: h37_destination_read_on_another_stream
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
    let mut here = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut here, 1.0)?;
    let frame = copies.copy_from_peer(frame, .., &mut here)?;
    drop(frame);
    Ok(())
}
