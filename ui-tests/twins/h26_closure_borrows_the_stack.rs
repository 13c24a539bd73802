// H26, mended: the closure owns the value that it writes to, here one end of a channel.
use cuda_rt::{Device, Error, Handoff, PinnedBuffer};
use std::sync::mpsc;

cuda_rt::streams! {
    Download;
}

/// The process-wide device: the captures of a closure must not belong to a scope.
fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let mut frame = download.alloc_zeroed::<f32>(64)?;
    download.fill(&mut frame, 0.5)?;
    let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let sum = sum(download.release(host)?)?;
    assert_eq!(sum.recv().expect("the closure runs")?, 32.0);
    Ok(())
}

fn sum(download: Handoff<PinnedBuffer<f32>>) -> Result<mpsc::Receiver<Result<f32, Error>>, Error> {
    let (sender, receiver) = mpsc::channel();
    download.on_done(move |host| {
        let sum = host.map(|host| host.iter().sum());
        sender.send(sum).expect("the other end waits");
    })?;
    Ok(receiver)
}
