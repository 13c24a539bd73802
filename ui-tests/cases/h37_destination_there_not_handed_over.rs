// H37 (E0308): a copy writes memory of GPU 1 that a stream of GPU 1 owns.
// Twin: h37_destination_there_used_early
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
    let mut field = compute.alloc_zeroed::<f32>(1024)?;
    let edge = copies.alloc_zeroed::<f32>(16)?;
    copies.copy_to_peer(&edge, &mut field[..16], ..)?;
    compute.fill(&mut field, 1.0)?;
    Ok(())
}
