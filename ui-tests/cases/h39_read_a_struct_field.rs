// H39 (E0308): a struct's buffer was allocated and never written, and is handed out as written.
// Twin: h39_read_of_memory_never_written
#![forbid(unsafe_code)]
use std::mem::MaybeUninit;

use cuda_rt::DeviceBuffer;

cuda_rt::streams! {
    Compute;
}

struct Scratch {
    memory: Option<DeviceBuffer<MaybeUninit<f32>, Compute>>,
}

impl Scratch {
    fn take(&mut self) -> Option<DeviceBuffer<f32, Compute>> {
        self.memory.take()
    }
}

fn main() {}
