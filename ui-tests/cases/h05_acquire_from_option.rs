// H05 (E0277): a handoff in an `Option` is acquired as if it were always there.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Handoff, Stream};

cuda_rt::streams! {
    Download;
}

struct Stage {
    incoming: Option<Handoff<DeviceBuffer<f32>>>,
}

impl Stage {
    fn run(&mut self, download: &Stream<Download>) -> Result<DeviceBuffer<f32, Download>, Error> {
        download.acquire(self.incoming.take())
    }
}

fn main() {}
