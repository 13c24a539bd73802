// H08 (E0596): a bundle has a lease beside its own buffer, and both are written.
// Twin: h08_write_weights_in_a_graph
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Idle, Lease, Place, Stream};

cuda_rt::streams! {
    Compute;
}

#[derive(cuda_rt::Bundle)]
struct Layer<P: Place = Idle> {
    weights: Lease<DeviceBuffer<f32>, P>,
    out: DeviceBuffer<f32, P>,
}

fn step(compute: &Stream<Compute>, layer: &mut Layer<Compute>) -> Result<(), Error> {
    compute.fill(&mut layer.out, 1.0)?;
    compute.fill(&mut layer.weights.view(), 1.0)
}

fn main() {}
