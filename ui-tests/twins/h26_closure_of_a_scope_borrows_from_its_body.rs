// H26, mended: the closure borrows what is around the scope, which waits for the closure.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live, done_scope};

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
    let mut frame = download.alloc_zeroed::<f32>(1000)?;
    download.fill(&mut frame, 1.5)?;
    let mut host = download.adopt(gpu.pinned::<f32>(1000)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let mut sum = 0.0;
    let all = &mut sum;
    done_scope(|scope| {
        download.release(host)?.on_done_in(scope, move |host| {
            *all = host.map_or(0.0, |host| host.iter().sum());
        })
    })?;
    assert_eq!(sum, 1500.0);
    Ok(())
}
