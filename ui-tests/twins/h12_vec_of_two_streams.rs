// H12, mended: handoffs name no stream, so one `Vec` holds handoffs of all streams.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

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

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let (mut one, mut two) = (
        compute.alloc_zeroed::<f32>(64)?,
        download.alloc_zeroed::<f32>(64)?,
    );
    compute.fill(&mut one, 1.0)?;
    download.fill(&mut two, 2.0)?;
    let frames = vec![compute.release(one)?, download.release(two)?];
    for (handoff, value) in frames.into_iter().zip([1.0, 2.0]) {
        let frame = download.acquire(handoff)?;
        let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
        download.copy_to_host(&frame, &mut host)?;
        assert_eq!(*download.release(host)?.synchronize()?, [value; 64]);
    }
    Ok(())
}
