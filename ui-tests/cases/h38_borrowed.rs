// H38 (E0277): ranks lend their buffers, which they may use as soon as the call is back.
// Twin: h38_buffer_used_in_flight
#![forbid(unsafe_code)]
use cuda_rt::{Communicator, Device, Error, Gpu, Reduction};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let (gpu, other) = (Device::open()?, Device::open_gpu::<1>()?);
    let (here, there) = (gpu.stream::<Compute>()?, other.stream::<Compute<Gpu<1>>>()?);
    let ranks = Communicator::new((&gpu, &other))?;
    let (mut a, b) = (here.alloc_zeroed::<f32>(64)?, there.alloc_zeroed::<f32>(64)?);
    ranks.all_reduce(Reduction::Sum, (here.rank(&mut a), there.rank(&b)))?;
    here.fill(&mut a, 1.0)?;
    Ok(())
}
