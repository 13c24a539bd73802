// H38 (E0382): a struct's field takes part in a collective, and its struct is used meanwhile.
// Twin: h38_buffer_used_in_flight
#![forbid(unsafe_code)]
use cuda_rt::{Communicator, Device, DeviceBuffer, Error, Gpu, Reduction, Stream};

cuda_rt::streams! {
    Compute;
}

struct Gradients {
    values: DeviceBuffer<f32, Compute>,
}

impl Gradients {
    fn clear(&mut self, compute: &Stream<Compute>) -> Result<(), Error> {
        compute.fill(&mut self.values, 0.0)
    }
}

fn main() -> Result<(), Error> {
    let (gpu, other) = (Device::open()?, Device::open_gpu::<1>()?);
    let (here, there) = (gpu.stream::<Compute>()?, other.stream::<Compute<Gpu<1>>>()?);
    let ranks = Communicator::new((&gpu, &other))?;
    let mut gradients = Gradients {
        values: here.alloc_zeroed(64)?,
    };
    let b = there.alloc_zeroed::<f32>(64)?;
    let reduced = ranks.all_reduce(Reduction::Sum, (here.rank(gradients.values), there.rank(b)))?;
    gradients.clear(&here)?;
    drop(reduced);
    Ok(())
}
