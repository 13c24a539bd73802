// H26 (E0521): a function that a stream runs keeps the memory for later, when the stream may use it
// again.
// Twin: h14_write_under_a_host_function
#![forbid(unsafe_code)]
use cuda_rt::{Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

fn start(download: &Stream<Download>, host: &mut PinnedBuffer<f32, Download>) -> Result<(), Error> {
    let mut kept: Option<&'static mut [f32]> = None;
    download.host_fn(host, move |values| kept = Some(values))
}

fn main() {}
