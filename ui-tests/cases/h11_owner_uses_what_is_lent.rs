// H11 (E0502): the owner reads a view while another stream has it on loan.
// Twin: h11_view_read_on_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut copy = compute.alloc_zeroed::<f32>(1024)?;
    compute.lend(&download, &mut frame, |_| compute.copy(&frame, &mut copy))??;
    Ok(())
}
