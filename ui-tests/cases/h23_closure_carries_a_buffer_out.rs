// H23 (lifetime): a closure that owns a pooled stream and its buffer is returned.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let later = pool.with(|stream| {
        let (stream, frame) = (stream.clone(), stream.alloc_zeroed::<f32>(1024)?);
        Ok::<_, Error>(move || stream.release(frame))
    })?;
    later()?;
    Ok(())
}
