// H26 (E0373): a closure that runs when a download is done writes a variable of a function that may
// have returned.
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, PinnedBuffer};

fn start(download: Handoff<PinnedBuffer<f32>>) -> Result<(), Error> {
    let mut sum = 0.0;
    download.on_done(|host| {
        sum = host.map_or(0.0, |host| host.iter().sum());
    })
}

fn main() {}
