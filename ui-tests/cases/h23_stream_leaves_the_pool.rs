// H23 (lifetime): a pooled stream leaves its closure, and is lent to another one.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let stream = pool.with(|stream| Ok::<_, Error>(stream.clone()))?;
    drop(stream);
    Ok(())
}
