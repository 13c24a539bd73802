// H01, mended: what a stream keeps is opened on it by a comparison, and elsewhere behind an event.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{AnyDevice, Device, DeviceBuffer, Error, Idle, Kept, Live, Priority};

type Data = Kept<DeviceBuffer<f32, Idle<AnyDevice>>>;

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (one, two) = (gpu.create_stream("one", Priority::Low)?, gpu.create_stream("two", Priority::Low)?);
    let mut kept: Data = one.run(|s| Ok::<_, Error>(s.keep(s.alloc_zeroed::<f32>(64)?)))?;
    one.run(|s| s.fill(&mut s.view(&mut kept)?, 1.0))?;
    let copy = two.run(|s| {
        let mut copy = s.alloc_zeroed::<f32>(64)?;
        s.by_ref_ordered(&kept, |kept| s.copy(&kept, &mut copy))??;
        Ok::<_, Error>(s.keep(copy))
    })?;
    one.run(|s| s.fill(&mut s.view(&mut kept)?, 2.0))?; // behind the copy
    let refused = two.run(|s| s.open(kept).map(drop)).unwrap_err();
    assert!(matches!(refused.error, Error::OtherStream { .. }));
    assert_eq!(two.run(|s| s.copy_to_vec(&s.open(copy)?))?, [1.0; 64]);
    assert_eq!(two.run(|s| s.copy_to_vec(&s.open_ordered(refused.value)?))?, [2.0; 64]);
    Ok(())
}
