// H37 (E0382): GPU 0 writes memory that it has returned to GPU 1.
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
    let frame = owner.acquire(compute.release(lent)?.for_its_device())?;
    compute.fill(&mut lent, 1.0)?;
    drop(frame);
    Ok(())
}
