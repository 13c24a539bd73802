// H26 (E0373): a function that a stream runs later writes a variable of a function that may have
// returned.
#![forbid(unsafe_code)]
use cuda_rt::{Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

fn start(download: &Stream<Download>, host: &PinnedBuffer<f32, Download>) -> Result<(), Error> {
    let mut sum = 0.0;
    download.host_fn(host, |values| sum = values.iter().sum())
}

fn main() {}
