// H26, mended: the function owns the value that it writes to, here one end of a channel.
use cuda_rt::{Device, Error, PinnedBuffer, Stream};
use std::sync::mpsc;

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let mut frame = download.alloc_zeroed::<f32>(64)?;
    download.fill(&mut frame, 0.5)?;
    let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let sum = start(&download, &host)?;
    assert_eq!(sum.recv().expect("the function runs"), 32.0);
    Ok(())
}

fn start(
    download: &Stream<Download>,
    host: &PinnedBuffer<f32, Download>,
) -> Result<mpsc::Receiver<f32>, Error> {
    let (sender, receiver) = mpsc::channel();
    download.host_fn(host, move |values| {
        let _ = sender.send(values.iter().sum());
    })?;
    // A simulated device runs work that somebody waits for.
    download.synchronize()?;
    Ok(receiver)
}
