// H37 (E0382): GPU 1 uses memory that a stream of GPU 0 still copies to.
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
    let field_copied = copies.copy_to_peer(&edge, compute.release(field)?, ..16)?;
    compute.fill(&mut field[16..], 1.0)?;
    drop(field_copied);
    Ok(())
}
