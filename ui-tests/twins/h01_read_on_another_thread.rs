// H01, mended: the thread gets a handoff, through a channel, and acquires it on its stream.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Handoff, Idle, Live};
use std::sync::mpsc;

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
    let (send, receive) = mpsc::channel::<Handoff<DeviceBuffer<f32, Idle<D>>>>();
    std::thread::scope(|scope| {
        let saved = scope.spawn(move || {
            let frame = download.acquire(receive.recv().unwrap())?;
            let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
            download.copy_to_host(&frame, &mut host)?;
            download.release(host)?.synchronize()
        });
        let mut frame = compute.alloc_zeroed::<f32>(1024)?;
        compute.fill(&mut frame, 4.0)?;
        send.send(compute.release(frame)?).unwrap();
        assert_eq!(*saved.join().unwrap()?, [4.0; 1024]);
        Ok(())
    })
}
