// H09 (E0505): a slice of shared memory outlives the lease of the host, and the bundle is taken
// back.
// Twin: h14_write_what_is_shared_with_the_host
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let shared = cuda_rt::Shared::new(gpu.pinned::<f32>(1024)?);
    let host = shared.host()?;
    let samples: &[f32] = &host;
    drop(host);
    let mut buffer = compute.acquire(shared.reclaim().expect("no lease is left"))?;
    compute.copy_to_host(&compute.alloc_zeroed::<f32>(1024)?, &mut buffer)?;
    drop((samples[0], download));
    Ok(())
}
