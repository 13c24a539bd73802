// H38 (E0277): a captured stream is to take part in a collective, which the other ranks run once.
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
    let graph = here.capture(a, |stream, _| {
        let mine = stream.alloc_zeroed::<f32>(64)?;
        ranks
            .all_reduce(Reduction::Sum, (stream.rank(mine), there.rank(b)))
            .map(drop)
    })?;
    drop(graph);
    Ok(())
}
