// H38, mended: the rank's stream hands over the gathered data.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Communicator, Device, Error, Live};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| {
            gpu.simulated_peer(|other| program(&gpu, &other))
        })???;
    }
    Ok(())
}

fn program<A: Live, B: Live>(gpu: &Device<A>, other: &Device<B>) -> Result<(), Error> {
    let (here, there) = (gpu.stream::<Compute<A>>()?, other.stream::<Compute<B>>()?);
    let ranks = Communicator::new((gpu, other))?;
    let download = gpu.stream::<Download<A>>()?;
    let (mut a, mut b) = (here.alloc_zeroed::<f32>(64)?, there.alloc_zeroed::<f32>(64)?);
    here.fill(&mut a, 1.0)?;
    there.fill(&mut b, 2.0)?;
    let all = (here.alloc_zeroed::<f32>(128)?, there.alloc_zeroed::<f32>(128)?);
    let ((_, all), _) = ranks.all_gather((here.rank((a, all.0)), there.rank((b, all.1))))?;
    let all = download.acquire(here.release(all)?)?;
    let mut host = download.adopt(gpu.pinned::<f32>(128)?)?;
    download.copy_to_host(&all, &mut host)?;
    let host = download.release(host)?.synchronize()?;
    assert_eq!((&host[..64], &host[64..]), (&[1.0; 64][..], &[2.0; 64][..]));
    Ok(())
}
