// H22, mended: leaked handoffs, buffers, leases and graphs only leak memory.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};
use std::mem::forget;

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
    let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
    let mut frame = compute.alloc_zeroed::<f32>(64)?;
    compute.fill(&mut frame, 1.0)?;
    forget(compute.release(compute.alloc_zeroed::<f32>(64)?)?);
    forget(compute.alloc_zeroed::<f32>(64)?);
    forget(download.adopt(gpu.pinned::<f32>(64)?)?);
    forget(
        compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, mut view| {
            stream.fill(&mut view, 2.0)
        })?,
    );
    let shared = compute.share(frame)?;
    forget(download.lease(&shared)?);
    download.copy_to_host(&download.lease(&shared)?.view(), &mut host)?;
    assert!(
        shared.reclaim().is_err(),
        "a leaked lease keeps the frame for ever"
    );
    assert_eq!(*download.release(host)?.synchronize()?, [1.0; 64]);
    Ok(())
}
