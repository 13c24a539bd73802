// H36 (E0277): a struct has parts on two GPUs, and is to move as one bundle.
// Twin: h06_release_of_a_part_of_another
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Gpu, Handoff, Stream};

cuda_rt::streams! {
    Compute;
}

fn give(
    compute: &Stream<Compute>,
    here: DeviceBuffer<f32, Compute>,
    there: DeviceBuffer<f32, Compute<Gpu<1>>>,
) -> Result<Handoff<(DeviceBuffer<f32>, DeviceBuffer<f32>)>, Error> {
    compute.release((here, there))
}

fn main() {}
