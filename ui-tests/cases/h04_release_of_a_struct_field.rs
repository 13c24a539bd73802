// H04 (E0507): a struct releases its frame, and still has it.
// Twin: h04_use_after_release
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Handoff, Stream};

cuda_rt::streams! {
    Compute;
}

struct Renderer {
    compute: Stream<Compute>,
    frame: DeviceBuffer<f32, Compute>,
}

impl Renderer {
    fn finish(&mut self) -> Result<Handoff<DeviceBuffer<f32>>, Error> {
        self.compute.release(self.frame)
    }
}

fn main() {}
