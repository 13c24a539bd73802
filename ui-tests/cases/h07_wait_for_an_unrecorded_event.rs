// H07 (E0599): a wait for an event that nobody recorded waits for nothing. Events cannot be named:
// they exist recorded, inside handoffs.
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
    let event = gpu.event()?;
    download.wait(&event)?;
    event.record(&compute)?;
    Ok(())
}
