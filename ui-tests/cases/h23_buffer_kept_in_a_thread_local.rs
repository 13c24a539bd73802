// H23 (E0521): a buffer of a pooled stream is kept in a thread-local for the next one.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, Error, Pooled};
use std::cell::Cell;

thread_local! {
    static KEPT: Cell<Option<DeviceBuffer<f32, Pooled<'static>>>> = const { Cell::new(None) };
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    pool.with(|stream| {
        KEPT.set(Some(stream.alloc_zeroed::<f32>(64)?));
        Ok(())
    })
}
