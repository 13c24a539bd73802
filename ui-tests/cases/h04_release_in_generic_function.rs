// H04 (E0382): a function for any bundle of any stream releases it, and gives it back to be used
// on.
// Twin: h04_use_after_release
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, OwnedBy, Stream, StreamTag};

fn share<S: StreamTag, B: OwnedBy<S>>(stream: &Stream<S>, bundle: B) -> Result<(Handoff<B::Idle>, B), Error> {
    let handoff = stream.release(bundle)?;
    Ok((handoff, bundle))
}

fn main() {}
