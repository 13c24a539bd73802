// H37 (E0277): GPU 1 writes what comes back from the copy before waiting for it.
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
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let mut frame = copies.copy_from_peer(compute.release(frame)?, .., &mut here)?;
    compute.fill(&mut frame, 1.0)?;
    Ok(())
}
