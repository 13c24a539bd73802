// H03 (E0277): two stages share a struct, and each writes its frame on a stream of its own.
// Twin: h03_two_streams_write
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Stream};

cuda_rt::streams! {
    Compute;
    Upload;
}

struct Stages {
    compute: Stream<Compute>,
    upload: Stream<Upload>,
    frame: DeviceBuffer<f32, Upload>,
}

impl Stages {
    fn step(&mut self) -> Result<(), Error> {
        self.upload.fill(&mut self.frame, 1.0)?;
        self.compute.fill(&mut self.frame, 2.0)
    }
}

fn main() {}
