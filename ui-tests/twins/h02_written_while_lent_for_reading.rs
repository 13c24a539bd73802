// H02, mended: the owner only reads while the borrower reads. It writes after the loan, and the
// write waits for the borrower.
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
    let mut frame = compute.init_filled(compute.alloc_uninit::<f32>(1024)?, 6.0)?;
    let mut here = compute.alloc_zeroed::<f32>(1024)?;
    let mut there = compute.alloc_zeroed::<f32>(1024)?;
    compute.lend_all(&download, (&frame, &mut there), |(lent, mut there)| {
        download.copy(&lent, &mut there)?;
        compute.copy(&frame, &mut here)
    })??;
    compute.fill(&mut frame, 7.0)?;
    for copy in [here, there] {
        let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
        compute.copy_to_host(&copy, &mut host)?;
        assert_eq!(*compute.release(host)?.synchronize()?, [6.0; 1024]);
    }
    Ok(())
}
