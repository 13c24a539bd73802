// H01, mended: the function takes both streams, and hands the frame over.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Live, PinnedBuffer, Stream, StreamTag};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn save<Owner: StreamTag, Reader: StreamTag<Device = Owner::Device>>(
    owner: &Stream<Owner>,
    reader: &Stream<Reader>,
    frame: DeviceBuffer<f32, Owner>,
    host: &mut PinnedBuffer<f32, Reader>,
) -> Result<(), Error> {
    let frame = reader.acquire(owner.release(frame)?)?;
    reader.copy_to_host(&frame, host)
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut frame, 2.5)?;
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    save(&compute, &download, frame, &mut host)?;
    let host = download.release(host)?.synchronize()?;
    assert_eq!(*host, [2.5; 1024]);
    Ok(())
}
