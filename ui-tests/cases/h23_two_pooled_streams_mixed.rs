// H23 (E0521): a buffer of one pooled stream is written on another one.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let pool = gpu.stream_pool(2)?;
    pool.with(|one| {
        let mut frame = one.alloc_zeroed::<f32>(1024)?;
        pool.with(|two| two.fill(&mut frame, 1.0))
    })
}
