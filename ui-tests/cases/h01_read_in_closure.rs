// H01 (E0277): a closure carries a frame of `Compute` into work of `Download`.
// Twin: h01_read_without_handoff
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    let mut job: Box<dyn FnMut() -> Result<(), Error>> =
        Box::new(|| download.copy_to_host(&frame, &mut host));
    job()
}
