// H08 (E0596): a thread that reads a shared frame writes it.
// Twin: h08_write_through_a_lease
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let lease = download.lease(&shared)?;
    std::thread::scope(|scope| {
        scope.spawn(|| download.fill(&mut lease.view()[..1], 1.0));
    });
    Ok(())
}
