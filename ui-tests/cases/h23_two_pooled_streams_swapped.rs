// H23 (E0521): buffers of two pooled streams change places.
// Twin: h23_two_pooled_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    pool.with(|one| {
        let mut mine = one.alloc_zeroed::<f32>(1024)?;
        pool.with(|two| {
            std::mem::swap(&mut mine, &mut two.alloc_zeroed::<f32>(1024)?);
            Ok(())
        })
    })
}
