// H38 (E0308): what the ranks gave back is swapped between their streams.
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
    let (a, b) = (here.alloc_zeroed::<f32>(64)?, there.alloc_zeroed::<f32>(64)?);
    let (mut a, mut b) = ranks.all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))?;
    std::mem::swap(&mut a, &mut b);
    here.fill(&mut a, 1.0)?;
    Ok(())
}
