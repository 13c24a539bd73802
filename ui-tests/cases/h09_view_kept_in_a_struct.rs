// H09 (E0505): a struct keeps a view of a shared frame whose lease is ended, and the frame is taken
// back.
// Twin: h09_view_outlives_its_lease
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceView, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

struct Reader<'v> {
    frame: DeviceView<'v, f32, Download>,
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let lease = download.lease(&shared)?;
    let reader = Reader { frame: lease.view() };
    drop(lease);
    let frame = shared.reclaim();
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.copy_to_host(&reader.frame, &mut host)?;
    drop(frame);
    Ok(())
}
