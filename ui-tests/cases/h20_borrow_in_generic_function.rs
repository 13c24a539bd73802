// H20 (E0277): a function for any stream lends it a view of pinned memory, to be given back later.
// Twin: h20_borrow_in_flight
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, PinnedSlice, Stream, StreamTag};

fn begin<'a, S: StreamTag>(stream: &Stream<S>, host: &'a mut PinnedSlice<f32, S>) -> Result<(), Error> {
    let in_flight = stream.release(host)?;
    drop::<Handoff<_>>(in_flight);
    Ok(())
}

fn main() {}
