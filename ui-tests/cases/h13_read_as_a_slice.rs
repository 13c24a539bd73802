// H13 (E0308): memory of a stream is passed to a function of the host's as a slice.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

fn sum(values: &[f32]) -> f32 {
    values.iter().sum()
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    println!("{}", sum(&host));
    Ok(())
}
