// H20 (E0277): a stream is given a borrowed buffer, and the function returns while the copy runs.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

fn start(
    download: &Stream<Download>,
    frame: &DeviceBuffer<f32, Download>,
    host: &mut PinnedBuffer<f32>,
) -> Result<(), Error> {
    let host = download.adopt(host)?;
    drop((frame, host));
    Ok(())
}

fn main() {}
