// H12 (E0308): a closure that a slot lends its bundle to puts another stream's buffer in its place.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Slot};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut slot = Slot::from(compute.release(compute.alloc_zeroed::<f32>(64)?)?);
    let mut other = download.alloc_zeroed::<f32>(64)?;
    slot.on(&compute, |frame| std::mem::swap(frame, &mut other))?;
    Ok(())
}
