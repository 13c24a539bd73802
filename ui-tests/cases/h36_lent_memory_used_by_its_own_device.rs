// H36 (E0277): GPU 1 writes and releases memory that it has lent to GPU 0.
// Twin: h37_memory_on_loan
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let other = Device::open_gpu::<1>()?;
    let (compute, owner) = (gpu.stream::<Compute>()?, other.stream::<Compute<Gpu<1>>>()?);
    let frame = owner.alloc_zeroed::<f32>(1024)?;
    let mut lent = compute.acquire_peer(owner.release(frame)?)?;
    owner.fill(&mut lent, 1.0)?;
    drop(owner.release(lent)?);
    Ok(())
}
