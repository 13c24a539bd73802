use cuda_rt::{Device, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    pub Compute, priority = High;
    pub Download;
}

fn main() -> cuda_rt::Result<()> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);

    let mut input = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut input, 21.0)?;
    let mut output = compute.alloc_zeroed::<f32>(1024)?; // DeviceBuffer<f32, Compute>
    scale(&compute, Grid1::covering(1024), &input, &mut output, 2.0)?;

    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?; // the CPU can't touch it now
    download.copy_to_host(&output, &mut host)?;
    let host = download.release(host)?.synchronize()?; // now it can
    assert_eq!(host[0], 42.0);
    Ok(())
}
