// H23 (lifetime): a buffer leaves the closure that its stream was lent to.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let frame = pool.with(|stream| stream.alloc_zeroed::<f32>(1024))?;
    drop(frame);
    Ok(())
}
