// H05 (E0382): every worker stream acquires the same handoff.
// Twin: h05_acquire_twice
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let handoff = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    let pool = gpu.stream_pool(2)?;
    for _ in 0..2 {
        pool.with(|worker| worker.acquire(handoff).map(drop))?;
    }
    Ok(())
}
