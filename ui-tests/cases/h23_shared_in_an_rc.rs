// H23 (E0521): a pooled stream's buffer is kept in an `Rc` outside.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};
use std::cell::RefCell;
use std::rc::Rc;

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    let kept = Rc::new(RefCell::new(None));
    pool.with(|stream| {
        *kept.borrow_mut() = Some(stream.alloc_zeroed::<f32>(1024)?);
        Ok::<_, Error>(())
    })?;
    drop(kept);
    Ok(())
}
