// H37 (E0277): another stream of GPU 0 reads memory that GPU 1 lent to the first.
// Twin: h37_memory_on_loan
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
    Copies;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let other = Device::open_gpu::<1>()?;
    let (compute, copies) = (gpu.stream::<Compute>()?, gpu.stream::<Copies>()?);
    let owner = other.stream::<Compute<Gpu<1>>>()?;
    let lent = compute.acquire_peer(owner.release(owner.alloc_zeroed::<f32>(1024)?)?)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    copies.copy(&lent, &mut here)
}
