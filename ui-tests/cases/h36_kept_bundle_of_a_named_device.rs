// H36 (E0271, E0308): the type of what a stream keeps names one device, though the value says which
// device it is on.
// Twin: h36_kept_bundle_of_a_named_device
#![forbid(unsafe_code)]
use cuda_rt::{AnyStream, DeviceBuffer, Error, Kept};

struct Tensor {
    data: Kept<DeviceBuffer<f32>>,
}

fn zeros(on: &AnyStream) -> Result<Tensor, Error> {
    on.run(|s| {
        Ok(Tensor {
            data: s.keep(s.alloc_zeroed::<f32>(1024)?),
        })
    })
}

fn main() {}
