// H19, mended: each round waits only for its own slot.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live, Slot};

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
    let mut ring = [
        Slot::new(gpu.pinned::<f32>(64)?),
        Slot::new(gpu.pinned::<f32>(64)?),
    ];
    let mut saved = Vec::new();
    for round in 0..6 {
        let slot = &mut ring[round % 2];
        slot.host(|host| saved.push(host[0]))?;
        let mut frame = download.alloc_zeroed::<f32>(64)?;
        download.fill(&mut frame, 1.0 + round as f32)?;
        slot.on(&download, |host| download.copy_to_host(&frame, host))??;
    }
    assert_eq!(saved, [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    Ok(())
}
