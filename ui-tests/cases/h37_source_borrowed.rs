// H37 (E0308): a copy borrows memory of GPU 1, which may be written as soon as the call is back.
// Twin: h37_source_written_under_the_copy
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
    Copies;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let other = Device::open_gpu::<1>()?;
    let (compute, copies) = (other.stream::<Compute<Gpu<1>>>()?, gpu.stream::<Copies>()?);
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    copies.copy_from_peer(&frame, .., &mut here)?;
    compute.fill(&mut frame, 1.0)?;
    Ok(())
}
