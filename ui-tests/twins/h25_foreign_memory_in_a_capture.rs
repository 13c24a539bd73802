// H25, mended: memory of another library is taken over outside, and enters the capture with the
// bundle. The graph keeps it, so it goes back behind the last launch.
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
    let (address, len) = compute.alloc_from_slice(&[3.0_f32; 64])?.into_raw();
    let (sender, given_back) = channel();
    let release = move || sender.send(address).unwrap();
    // SAFETY: nothing else uses or frees the memory before its release. It was written in the order
    // of this stream.
    let memory = unsafe { DeviceBuffer::<f32, _>::from_foreign(&compute, address, len, release) };
    let frame = compute.alloc_zeroed::<f32>(64)?;
    let mut graph = compute.capture((memory, frame), |stream, (memory, mut frame)| {
        stream.copy(&memory, &mut frame)
    })?;
    graph.launch(&compute)?;
    let (memory, frame) = graph.into_inner();
    drop(memory);
    let address = given_back.recv().unwrap();
    // SAFETY: the memory has the form in which it was given away, and no use is left.
    drop(unsafe { DeviceBuffer::<f32, _>::from_raw(&compute, address, len) });
    assert_eq!(compute.copy_to_vec(&frame)?, [3.0; 64]);
    Ok(())
}
