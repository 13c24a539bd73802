// H23 (lifetime): a pool's closure claims that its brand is `'static`, so that its buffers can
// stay.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, Error, Pooled, Stream};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let mut kept: Vec<DeviceBuffer<f32, Pooled<'static>>> = Vec::new();
    pool.with(|stream: &Stream<Pooled<'static>>| {
        kept.push(stream.alloc_zeroed::<f32>(64)?);
        Ok::<_, Error>(())
    })
}
