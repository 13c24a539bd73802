// H37 (E0308): a copy reads memory of GPU 1 while a stream of GPU 1 still writes it.
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
    compute.fill(&mut frame, 1.0)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let frame = copies.copy_from_peer(frame, .., &mut here)?;
    drop(frame);
    Ok(())
}
