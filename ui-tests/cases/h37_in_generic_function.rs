// H37 (E0308): whoever calls it, this copies from a stream that is not asked.
// Twin: h37_source_not_handed_over
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, DeviceSlice, Error, Gpu, Live, Stream};

cuda_rt::streams! {
    Compute;
    Copies;
}

fn pull<A: Live, B: Live>(
    copies: &Stream<Copies<A>>,
    theirs: DeviceBuffer<f32, Compute<B>>,
    ours: &mut DeviceSlice<f32, Copies<A>>,
) -> Result<(), Error> {
    copies.copy_from_peer(theirs, .., ours)?;
    Ok(())
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let other = Device::open_gpu::<1>()?;
    let (compute, copies) = (other.stream::<Compute<Gpu<1>>>()?, gpu.stream::<Copies>()?);
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    pull(&copies, compute.alloc_zeroed(1024)?, &mut here)
}
