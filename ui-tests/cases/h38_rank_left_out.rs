// H38 (E0277): a rank is left out, for which the others would wait for ever.
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
    let reduced = ranks.all_reduce(Reduction::Sum, (here.rank(a),))?;
    drop((reduced, b));
    Ok(())
}
