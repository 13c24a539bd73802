// H12 (E0038, E0277): a place that is anything which `Download` may read, whoever owns it.
// Twin: h12_vec_of_two_streams
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, ReadBy};

cuda_rt::streams! {
    Download;
}

struct Frames {
    any: Vec<DeviceBuffer<f32, dyn ReadBy<Download>>>,
}

fn main() {}
