// H38 (E0277): a stream reads what the collective on another has not reduced yet.
#![forbid(unsafe_code)]
use cuda_rt::{Communicator, Device, Error, Gpu, Reduction};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let (gpu, other) = (Device::open()?, Device::open_gpu::<1>()?);
    let (here, there) = (gpu.stream::<Compute>()?, other.stream::<Compute<Gpu<1>>>()?);
    let ranks = Communicator::new((&gpu, &other))?;
    let (a, b) = (here.alloc_zeroed::<f32>(64)?, there.alloc_zeroed::<f32>(64)?);
    let download = gpu.stream::<Download>()?;
    let (a, b) = ranks.all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))?;
    let mut copy = download.alloc_zeroed::<f32>(64)?;
    download.copy(&a, &mut copy)?;
    drop(b);
    Ok(())
}
