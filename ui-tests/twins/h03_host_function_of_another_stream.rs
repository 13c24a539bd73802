// H03, mended: the memory is handed over before the function gets it.
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (upload, download) = (gpu.stream::<Upload>()?, gpu.stream::<Download>()?);
    let host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    let mut host = upload.acquire(download.release(host)?)?;
    upload.host_fn(&mut host, |values| values.fill(2.0))?;
    assert_eq!(upload.release(host)?.synchronize()?[7], 2.0);
    Ok(())
}
