// H36, mended: what a stream keeps is on `AnyDevice`, and between two devices it is copied.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{AnyDevice, AnyStream, Device, DeviceBuffer, Error, Idle, Kept, Priority};

struct Tensor {
    data: Kept<DeviceBuffer<f32, Idle<AnyDevice>>>,
}

fn zeros(on: &AnyStream) -> Result<Tensor, Error> {
    on.run(|s| {
        Ok(Tensor {
            data: s.keep(s.alloc_zeroed::<f32>(64)?),
        })
    })
}

fn main() -> Result<(), Error> {
    for seed in 0..8 {
        let (here, there) = Device::simulated(SimConfig::default().seed(seed), |first| {
            let second = first.simulated_peer(|second| AnyDevice::from(&second))?;
            Ok::<_, Error>((AnyDevice::from(&first), second))
        })??;
        let here = here.create_stream("here", Priority::Low)?;
        let there = there.create_stream("there", Priority::Low)?;
        program(&here, &there)?;
    }
    Ok(())
}

fn program(here: &AnyStream, there: &AnyStream) -> Result<(), Error> {
    let mut tensor = zeros(there)?;
    there.run(|s| s.fill(&mut s.view(&mut tensor.data)?, 3.0))?;
    let refused = here.run(|s| s.open_ordered(tensor.data).map(drop)).unwrap_err();
    assert!(matches!(refused.error, Error::OtherDevice { .. }));
    let kept = refused.value;
    let copy = here.run(|a| {
        there.run(|b| {
            let mut copy = a.alloc_zeroed::<f32>(64)?;
            let theirs = a.copy_from_peer(b.release(b.open(kept)?)?, .., &mut copy)?;
            drop(b.acquire(theirs)?);
            Ok::<_, Error>(a.keep(copy))
        })
    })?;
    assert_eq!(here.run(|s| s.copy_to_vec(&s.open(copy)?))?, [3.0; 64]);
    Ok(())
}
