// H15 (E0308): a struct uploads from the `Box<[f32]>` that it keeps.
// Twin: h15_copy_from_a_vec
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Stream};

cuda_rt::streams! {
    Upload;
}

struct Feeder {
    upload: Stream<Upload>,
    samples: Box<[f32]>,
}

impl Feeder {
    fn feed(&mut self, frame: &mut DeviceBuffer<f32, Upload>) -> Result<(), Error> {
        self.upload.copy_to_device(&self.samples, frame)
    }
}

fn main() {}
