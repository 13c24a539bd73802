// H12 (E0308): a handle to one stream is kept as if it were another.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Stream};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let stream: Stream<Download> = compute;
    drop((stream, download));
    Ok(())
}
