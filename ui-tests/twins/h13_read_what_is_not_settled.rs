// H13, mended: pending memory comes back as a handoff, which can be queried again.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live, Query};

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

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let download = gpu.stream::<Download<D>>()?;
    let mut frame = download.alloc_zeroed::<f32>(1024)?;
    download.fill(&mut frame, 2.5)?;
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let mut handoff = download.release(host)?;
    let host = loop {
        match handoff.query()? {
            Query::Done(host) => break host,
            Query::Pending(pending) => handoff = pending,
        }
    };
    assert_eq!(*host, [2.5; 1024]);
    Ok(())
}
