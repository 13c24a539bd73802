// H05 (E0507): a struct acquires its handoff, and still has it for another stream.
// Twin: h05_acquire_twice
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Handoff, Stream};

cuda_rt::streams! {
    Compute;
}

struct Inbox {
    compute: Stream<Compute>,
    frame: Handoff<DeviceBuffer<f32>>,
}

impl Inbox {
    fn open(&mut self) -> Result<DeviceBuffer<f32, Compute>, Error> {
        self.compute.acquire(self.frame)
    }
}

fn main() {}
