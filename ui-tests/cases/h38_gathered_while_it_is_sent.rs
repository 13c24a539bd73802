// H38 (E0382): one buffer is what a rank sends and where it receives.
// Twin: h38_read_on_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{Communicator, Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let (gpu, other) = (Device::open()?, Device::open_gpu::<1>()?);
    let (here, there) = (gpu.stream::<Compute>()?, other.stream::<Compute<Gpu<1>>>()?);
    let ranks = Communicator::new((&gpu, &other))?;
    let (a, b) = (here.alloc_zeroed::<f32>(64)?, there.alloc_zeroed::<f32>(64)?);
    let all = there.alloc_zeroed::<f32>(128)?;
    let gathered = ranks.all_gather((here.rank((a, a)), there.rank((b, all))))?;
    drop(gathered);
    Ok(())
}
