// H01 (E0277): a struct keeps a frame of `Compute`, and its method reads it on `Download`.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Compute;
    Download;
}

struct Viewer {
    download: Stream<Download>,
    frame: DeviceBuffer<f32, Compute>,
    host: PinnedBuffer<f32, Download>,
}

impl Viewer {
    fn show(&mut self) -> Result<(), Error> {
        self.download.copy_to_host(&self.frame, &mut self.host)
    }
}

fn main() {}
