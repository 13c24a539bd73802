// H16 (E0505): a thread still reads pinned memory when a stream gets it.
// Twin: h16_drop_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let host = gpu.pinned::<f32>(1024)?;
    let samples = &host[..];
    std::thread::scope(|scope| {
        scope.spawn(move || println!("{}", samples[0]));
        download.adopt(host).map(drop)
    })?;
    Ok(())
}
