// H38, mended: the ranks' buffers come back to their streams, ordered after the collective.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Communicator, Device, Error, Live, Reduction};

cuda_rt::streams! {
    Compute;
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
    let (mut a, mut b) = (here.alloc_zeroed::<f32>(64)?, there.alloc_zeroed::<f32>(64)?);
    here.fill(&mut a, 1.0)?;
    there.fill(&mut b, 2.0)?;
    let (mut a, b) = ranks.all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))?;
    here.fill(&mut a, 9.0)?;
    let mut host = there.adopt(other.pinned::<f32>(64)?)?;
    there.copy_to_host(&b, &mut host)?;
    assert_eq!(*there.release(host)?.synchronize()?, [3.0; 64]);
    Ok(())
}
