// H02 (E0507): a struct hands its frame to a reader, and keeps it to write the next image there.
// Twin: h02_overwrite_in_next_round
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
    fn step(&mut self, show: impl Fn(Handoff<DeviceBuffer<f32>>)) -> Result<(), Error> {
        show(self.compute.release(self.frame)?);
        self.compute.fill(&mut self.frame, 1.0)
    }
}

fn main() {}
