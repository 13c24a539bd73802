// H21 (E0597): a function's buffer is freed at its end, but a view of it lives on.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut copy = compute.alloc_zeroed::<f32>(512)?;
    let half = {
        let frame = compute.alloc_zeroed::<f32>(1024)?;
        &frame[..512]
    };
    compute.copy(half, &mut copy)?;
    Ok(())
}
