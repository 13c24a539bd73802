// H03 (E0277): a host function of one stream writes memory that another stream owns.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (upload, download) = (gpu.stream::<Upload>()?, gpu.stream::<Download>()?);
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    upload.host_fn(&mut host, |values: &mut [f32]| values.fill(2.0))?;
    Ok(())
}
