// H23 (E0521): a thread takes a pooled stream's buffer, and outlives the closure.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    pool.with(|stream| {
        let frame = stream.alloc_zeroed::<f32>(1024)?;
        std::thread::spawn(move || drop(frame));
        Ok::<_, Error>(())
    })
}
