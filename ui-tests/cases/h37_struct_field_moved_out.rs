// H37 (E0382): a field is copied from by GPU 0, and its struct used by GPU 1 meanwhile.
// Twin: h37_source_written_under_the_copy
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, Error, Gpu, Stream};

cuda_rt::streams! {
    Compute;
    Copies;
}

struct Model {
    weights: DeviceBuffer<f32, Compute<Gpu<1>>>,
}

impl Model {
    fn update(&mut self, compute: &Stream<Compute<Gpu<1>>>) -> Result<(), Error> {
        compute.fill(&mut self.weights, 1.0)
    }
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let other = Device::open_gpu::<1>()?;
    let (compute, copies) = (other.stream::<Compute<Gpu<1>>>()?, gpu.stream::<Copies>()?);
    let mut model = Model {
        weights: compute.alloc_zeroed(1024)?,
    };
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let copied = copies.copy_from_peer(compute.release(model.weights)?, .., &mut here)?;
    model.update(&compute)?;
    drop(copied);
    Ok(())
}
