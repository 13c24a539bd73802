// H23 (E0521): a buffer of a pooled stream leaves as the payload of a panic.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        pool.with(|stream| -> Result<(), Error> { panic_any(stream.alloc_zeroed::<f32>(64)?) })
    }));
    drop(caught);
    Ok(())
}
