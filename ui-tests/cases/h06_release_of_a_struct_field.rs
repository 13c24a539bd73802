// H06 (E0277): a struct releases what its other stream writes, on the stream that reads.
// Twin: h06_release_of_a_part_of_another
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Handoff, Stream};

cuda_rt::streams! {
    Compute;
    Download;
}

struct Stages {
    download: Stream<Download>,
    frame: Option<DeviceBuffer<f32, Compute>>,
}

impl Stages {
    fn give(&mut self) -> Result<Option<Handoff<DeviceBuffer<f32>>>, Error> {
        self.frame
            .take()
            .map(|frame| self.download.release(frame))
            .transpose()
    }
}

fn main() {}
