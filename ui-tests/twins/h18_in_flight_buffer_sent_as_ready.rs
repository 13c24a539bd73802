// H18, mended: the channel carries handoffs, and the worker waits.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Handoff, Idle, Live, PinnedBuffer};
use std::sync::mpsc;

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
    let (send, receive) = mpsc::channel::<Handoff<PinnedBuffer<f32, Idle<D>>>>();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let saved: Result<Vec<f32>, Error> = receive
                .iter()
                .map(|handoff| Ok(handoff.synchronize()?.iter().sum()))
                .collect();
            saved
        });
        for round in 0..4 {
            let mut frame = download.alloc_zeroed::<f32>(64)?;
            download.fill(&mut frame, round as f32)?;
            let mut host = download.adopt(gpu.pinned(64)?)?;
            download.copy_to_host(&frame, &mut host)?;
            send.send(download.release(host)?).unwrap();
        }
        drop(send);
        assert_eq!(worker.join().unwrap()?, [0.0, 64.0, 128.0, 192.0]);
        Ok(())
    })
}
