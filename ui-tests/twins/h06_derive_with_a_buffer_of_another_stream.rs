// H06, mended: each buffer has the place of the bundle; a field without a buffer is plain.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Idle, Live, PinnedBuffer, Place, Bundle};

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

#[derive(Bundle)]
struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<u8, P>,
    host: PinnedBuffer<u8, P>,
    #[bundle(plain)]
    number: u64,
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let frame = Frame {
        pixels: compute.alloc_zeroed::<u8>(64)?,
        host: compute.adopt(gpu.pinned(64)?)?,
        number: 7,
    };
    let mut frame: Frame<Download<D>> = download.acquire(compute.release(frame)?)?;
    download.fill(&mut frame.pixels, 9)?;
    download.copy_to_host(&frame.pixels, &mut frame.host)?;
    let frame: Frame<Idle<D>> = download.release(frame)?.synchronize()?;
    assert_eq!((&*frame.host, frame.number), (&[9; 64][..], 7));
    let mut graph = compute.capture(compute.adopt(frame)?, |stream, mut frame| {
        assert_eq!(frame.number, 7);
        stream.fill(&mut frame.pixels, 8)?;
        stream.copy_to_host(&frame.pixels, &mut frame.host)
    })?;
    graph.launch(&compute)?;
    assert_eq!(*compute.release(graph.into_inner())?.synchronize()?.host, [8; 64]);
    Ok(())
}
