// H14 (E0521): a worker of a source keeps its slot, to write it again when it is uploaded, or when
// another worker fills it.
// Twin: pipeline
#![forbid(unsafe_code)]
use std::sync::Mutex;

use cuda_rt::pipeline::Pipeline;

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let to_read: Mutex<Vec<&mut [u8]>> = Mutex::new(Vec::new());
    let _ = Pipeline::new(&gpu, 4).source_ordered(4, 1024, 0..9, |_, pinned: &mut [u8]| {
        to_read.lock().unwrap().push(pinned);
        Ok(1024)
    });
}
