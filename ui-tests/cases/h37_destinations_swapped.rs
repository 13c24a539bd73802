// H37 (E0308): what GPU 0 copies to is swapped for memory of GPU 1.
// Twin: h37_destination_read_on_another_stream
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
    let theirs = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let mut there = compute.alloc_zeroed::<f32>(1024)?;
    std::mem::swap(&mut here, &mut there);
    let theirs = copies.copy_from_peer(theirs, .., &mut here)?;
    drop(theirs);
    Ok(())
}
