// H01 (E0277): a library is given a buffer that another stream may still be writing.
// Twin: h42_foreign_call_without_unsafe
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Stream};

cuda_rt::streams! {
    Compute;
    Download;
}

fn start(download: &Stream<Download>, frame: &DeviceBuffer<f32, Compute>) {
    drop(download.foreign("save").reads(frame));
}

fn main() {}
