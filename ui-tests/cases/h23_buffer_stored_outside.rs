// H23 (E0521): a buffer of a pooled stream is put into a variable outside the closure.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let mut kept = Vec::new();
    pool.with(|stream| {
        kept.push(stream.alloc_zeroed::<f32>(1024)?);
        Ok::<_, Error>(())
    })?;
    drop(kept);
    Ok(())
}
