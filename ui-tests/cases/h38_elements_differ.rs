// H38 (E0277): one rank adds integers, and the other floats.
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
    let (a, b) = (here.alloc_zeroed::<f32>(64)?, there.alloc_zeroed::<u32>(64)?);
    let reduced = ranks.all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))?;
    drop(reduced);
    Ok(())
}
