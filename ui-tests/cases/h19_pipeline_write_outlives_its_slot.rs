// H19 (E0521): a worker of a sink leaves the write to another thread, and its slot is refilled
// before the write is done.
// Twin: pipeline
#![forbid(unsafe_code)]
use std::io::Write;
use std::thread;

use cuda_rt::pipeline::Pipeline;

cuda_rt::streams! { Compute; Download; }

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    thread::scope(|scope| {
        let _ = Pipeline::new(&gpu, 4)
            .generate::<Compute, u8, _>(1024, 0..9, |_, _, output| Ok(output.len()))
            .download::<Download>()
            .sink_unordered(4, |_, data| {
                scope.spawn(move || std::io::stdout().write_all(data));
                Ok(())
            });
    });
}
