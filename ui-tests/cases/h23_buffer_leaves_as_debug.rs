// H23 (lifetime): a buffer of a pooled stream leaves behind a trait that says nothing of its brand.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let kept = pool.with(|stream| {
        Ok::<_, Error>(Box::new(stream.alloc_zeroed::<f32>(64)?) as Box<dyn std::fmt::Debug>)
    })?;
    println!("{kept:?}");
    Ok(())
}
