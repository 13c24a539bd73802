// H42, mended: the code that makes a typed buffer from an address answers for it in an `unsafe`
// block. The memory comes back after its last use.
use std::sync::mpsc::channel;

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Live};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

#[allow(unsafe_code)]
fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let compute = gpu.stream::<Compute<D>>()?;
    let (address, len) = compute.alloc_zeroed::<f32>(64)?.into_raw();
    let (sender, given_back) = channel();
    let release = move || sender.send(address).unwrap();
    // SAFETY: nothing else uses or frees the memory before its release. It was zeroed in the order
    // of this stream.
    let mut buffer = unsafe { DeviceBuffer::<f32, _>::from_foreign(&compute, address, len, release) };
    compute.fill(&mut buffer, 2.0)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(64)?)?;
    compute.copy_to_host(&buffer, &mut host)?;
    drop(buffer);
    let address = given_back.recv().unwrap();
    // SAFETY: the memory has the form in which it was given away, and no use is left.
    drop(unsafe { DeviceBuffer::<f32, _>::from_raw(&compute, address, len) });
    assert_eq!(*compute.release(host)?.synchronize()?, [2.0; 64]);
    Ok(())
}
