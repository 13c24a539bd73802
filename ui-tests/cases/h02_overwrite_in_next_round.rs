// H02 (E0382): each round writes the frame that the last round's download may still be reading.
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
    for round in 0..4 {
        compute.fill(&mut frame, round as f32)?;
        let reading = download.acquire(compute.release(frame)?)?;
        let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
        download.copy_to_host(&reading, &mut host)?;
    }
    Ok(())
}
