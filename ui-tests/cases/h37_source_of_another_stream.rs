// H37 (E0277): a copy to GPU 1 reads what another stream of GPU 0 still writes.
// Twin: h37_destination_there_used_early
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
    let field = there.release(there.alloc_zeroed::<f32>(1024)?)?;
    let mut edge = compute.alloc_zeroed::<f32>(16)?;
    compute.fill(&mut edge, 1.0)?;
    let field = copies.copy_to_peer(&edge, field, ..16)?;
    drop(field);
    Ok(())
}
