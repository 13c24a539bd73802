// H20 (E0277): a stream is given a borrowed buffer, and the caller returns while the copy runs.
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

fn start<'a>(
    download: &Stream<Download>,
    host: &'a mut PinnedBuffer<f32>,
) -> Result<Handoff<&'a mut PinnedBuffer<f32>>, Error> {
    let host = download.adopt(host)?;
    download.release(host)
}

fn main() {}
