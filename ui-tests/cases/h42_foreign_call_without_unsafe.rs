// H42 (E0133): a library enqueues work on memory of ours, and no one answers for what it touches.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_zeroed::<f32>(64)?;
    compute.foreign("copy").reads(&frame).enqueue(|_| ())
}
