// H21 (E0515): a function returns a view of a buffer that it frees.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{DeviceSlice, Error, Stream, StreamTag};

fn zeros<'a, S: StreamTag>(stream: &'a Stream<S>) -> Result<&'a DeviceSlice<f32, S>, Error> {
    let buffer = stream.alloc_zeroed::<f32>(64)?;
    Ok(&buffer[..])
}

fn main() {}
