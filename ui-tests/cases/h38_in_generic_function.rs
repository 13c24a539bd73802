// H38 (E0277): whoever calls it, this gives a buffer of a stream that is not asked.
// Twin: h38_read_on_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{Communicator, Device, DeviceBuffer, Error, Gpu, Live, Reduction, Stream};

cuda_rt::streams! {
    Compute;
    Upload;
}

fn step<A: Live, B: Live>(
    ranks: &Communicator<(A, B)>,
    streams: (&Stream<Compute<A>>, &Stream<Compute<B>>),
    a: DeviceBuffer<f32, Upload<A>>,
    b: DeviceBuffer<f32, Compute<B>>,
) -> Result<(), Error> {
    ranks
        .all_reduce(Reduction::Sum, (streams.0.rank(a), streams.1.rank(b)))
        .map(drop)
}

fn main() -> Result<(), Error> {
    let (gpu, other) = (Device::open()?, Device::open_gpu::<1>()?);
    let (here, there) = (gpu.stream::<Compute>()?, other.stream::<Compute<Gpu<1>>>()?);
    let ranks = Communicator::new((&gpu, &other))?;
    let a = gpu.stream::<Upload>()?.alloc_zeroed::<f32>(64)?;
    step(&ranks, (&here, &there), a, there.alloc_zeroed::<f32>(64)?)
}
