// H06, mended: the function takes any bundle that its stream owns.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live, OwnedBy, Bundle, Stream, StreamTag};

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

type On<R, From, To> = <<R as OwnedBy<From>>::Idle as Bundle>::On<To>;

fn hop<From: StreamTag, To: StreamTag<Device = From::Device>, R: OwnedBy<From>>(
    from: &Stream<From>,
    to: &Stream<To>,
    bundle: R,
) -> Result<On<R, From, To>, Error> {
    to.acquire(from.release(bundle)?)
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let mut frame = compute.alloc_zeroed::<f32>(64)?;
    compute.fill(&mut frame, 1.0)?;
    let host = compute.adopt(gpu.pinned::<f32>(64)?)?;
    let (frame, mut host) = hop(&compute, &download, (frame, host))?;
    download.copy_to_host(&frame, &mut host)?;
    assert_eq!(*download.release(host)?.synchronize()?, [1.0; 64]);
    Ok(())
}
