// H38 (E0277): a rank gives a buffer that another stream released, and waits for nothing.
// Twin: h38_read_on_another_stream
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
    let download = gpu.stream::<Download>()?;
    let a = download.release(download.alloc_zeroed::<f32>(64)?)?;
    let b = there.alloc_zeroed::<f32>(64)?;
    let reduced = ranks.all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))?;
    drop(reduced);
    Ok(())
}
