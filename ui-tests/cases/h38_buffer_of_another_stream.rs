// H38 (E0277): a rank gives memory that another stream of its GPU still writes.
// Twin: h38_read_on_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{Communicator, Device, Error, Gpu, Reduction};

cuda_rt::streams! {
    Compute;
    Upload;
}

fn main() -> Result<(), Error> {
    let (gpu, other) = (Device::open()?, Device::open_gpu::<1>()?);
    let (here, there) = (gpu.stream::<Compute>()?, other.stream::<Compute<Gpu<1>>>()?);
    let ranks = Communicator::new((&gpu, &other))?;
    let upload = gpu.stream::<Upload>()?;
    let mut a = upload.alloc_zeroed::<f32>(64)?;
    upload.fill(&mut a, 1.0)?;
    let b = there.alloc_zeroed::<f32>(64)?;
    let reduced = ranks.all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))?;
    drop(reduced);
    Ok(())
}
