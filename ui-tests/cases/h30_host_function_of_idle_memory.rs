// H30 (E0277): a host function gets pinned memory that the host may use meanwhile.
// Twin: h14_write_under_a_host_function
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let mut host = gpu.pinned::<f32>(1024)?;
    upload.host_fn(&mut host, |values: &mut [f32]| values.fill(2.0))?;
    host[0] = 1.0;
    Ok(())
}
