// H20, mended: buffers in flight are owned: the function takes one and returns a handoff.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Handoff, Idle, Live, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn start<D: Live>(
    download: &Stream<Download<D>>,
    host: PinnedBuffer<f32, Idle<D>>,
) -> Result<Handoff<PinnedBuffer<f32, Idle<D>>>, Error> {
    let mut frame = download.alloc_zeroed::<f32>(host.len())?;
    download.fill(&mut frame, 9.0)?;
    let mut host = download.adopt(host)?;
    download.copy_to_host(&frame, &mut host)?;
    download.release(host)
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let download = gpu.stream::<Download<D>>()?;
    let host = start(&download, gpu.pinned(64)?)?.synchronize()?;
    assert_eq!(*host, [9.0; 64]);
    Ok(())
}
