// H44: a closure that runs when a handoff is done may call CUDA, and may wait for it: it is not a
// CUDA callback.
use cuda_rt::{Device, Error};
use std::sync::mpsc;

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.init_filled(compute.alloc_uninit::<f32>(64)?, 3.0)?;
    let (sender, receiver) = mpsc::channel();
    compute.release(frame)?.on_done(move |frame| {
        let fetched = frame.and_then(|frame| {
            let download = gpu.stream::<Download>()?;
            let frame = download.adopt(frame)?;
            let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
            download.copy_to_host(&frame, &mut host)?;
            download.release(host)?.synchronize()
        });
        sender.send(fetched).expect("the other end waits");
    })?;
    assert_eq!(*receiver.recv().expect("the closure runs")?, [3.0; 64]);
    Ok(())
}
