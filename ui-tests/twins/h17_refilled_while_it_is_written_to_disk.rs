// H17, mended: the worker sends the buffer back when it has written it.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Idle, Live, PinnedBuffer};
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
    let (send, receive) = mpsc::channel::<PinnedBuffer<f32, Idle<D>>>();
    let (send_back, receive_back) = mpsc::channel();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let mut disk = Vec::new();
            for host in receive {
                disk.extend_from_slice(&host);
                send_back.send(host).unwrap();
            }
            disk
        });
        let mut host = gpu.pinned::<f32>(64)?;
        for round in 0..4 {
            let mut frame = download.alloc_zeroed::<f32>(64)?;
            download.fill(&mut frame, round as f32)?;
            let mut lent = download.adopt(host)?;
            download.copy_to_host(&frame, &mut lent)?;
            send.send(download.release(lent)?.synchronize()?).unwrap();
            host = receive_back.recv().unwrap();
        }
        drop(send);
        let expected: Vec<f32> = (0..4 * 64).map(|index| (index / 64) as f32).collect();
        assert_eq!(worker.join().unwrap(), expected);
        Ok(())
    })
}
