// H14 (E0277): the host writes pinned memory that a function of the stream may still be using.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let mut host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    upload.host_fn(&mut host, |values| values.fill(2.0))?;
    host[0] = 1.0;
    Ok(())
}
