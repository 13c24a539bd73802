// H29 (E0596): a kernel writes a shared bundle, which other streams are reading.
// Twin: h08_write_through_a_lease
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let input = compute.alloc_zeroed::<f32>(1024)?;
    let lease = compute.lease(&shared)?;
    scale(&compute, Grid1::covering(1024), &input, &mut lease.view(), 2.0)
}
