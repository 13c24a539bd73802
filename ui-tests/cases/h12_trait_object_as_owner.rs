// H12 (E0038, E0277): a bundle whose parts nobody knows is released.
// Twin: h12_vec_of_two_streams
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, OwnedBy, Stream};

cuda_rt::streams! {
    Compute;
}

fn give(compute: &Stream<Compute>, bundle: Box<dyn OwnedBy<Compute, Idle = DeviceBuffer<f32>>>) {
    let _ = compute.release(bundle);
}

fn main() {}
