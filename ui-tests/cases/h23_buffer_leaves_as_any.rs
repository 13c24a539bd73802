// H23 (lifetime): a buffer of a pooled stream leaves as a `Box<dyn Any>`.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let mut kept: Option<Box<dyn std::any::Any>> = None;
    pool.with(|stream| {
        kept = Some(Box::new(stream.alloc_zeroed::<f32>(1024)?));
        Ok::<_, Error>(())
    })?;
    drop(kept);
    Ok(())
}
