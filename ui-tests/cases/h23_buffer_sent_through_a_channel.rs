// H23 (E0521): a channel carries a pooled stream's buffer out of its closure.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let (send, receive) = std::sync::mpsc::channel();
    pool.with(|stream| {
        send.send(stream.alloc_zeroed::<f32>(1024)?).unwrap();
        Ok::<_, Error>(())
    })?;
    drop(receive);
    Ok(())
}
