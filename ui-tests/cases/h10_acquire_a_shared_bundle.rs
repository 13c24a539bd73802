// H10 (E0277): a writer acquires a shared frame, which others are reading.
// Twin: h10_writer_waits_for_one_of_two_readers
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let frame = compute.acquire(shared)?;
    drop(frame);
    Ok(())
}
