// H13 (E0277): `query` is taken for a wait: the download may not be over.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    let settled = download.release(host)?.query().map_err(Error::from)?;
    println!("{}", settled[0]);
    Ok(())
}
