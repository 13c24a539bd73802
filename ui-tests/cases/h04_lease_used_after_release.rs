// H04 (E0382): a lease is read through after it was handed to another stream, whose end of reading
// is the one that is waited for.
// Twin: h08_write_weights_in_a_graph
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let weights = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    let lease = compute.lease(&weights)?;
    let moved = download.acquire(compute.release(lease)?)?;
    compute.copy_to_host(&lease.view(), &mut host)?;
    drop(moved);
    Ok(())
}
