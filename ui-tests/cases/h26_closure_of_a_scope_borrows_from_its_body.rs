// H26 (E0373): a closure of a scope writes a variable of the scope's body, which returns before the
// scope waits.
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, PinnedBuffer, done_scope};

fn sum(download: Handoff<PinnedBuffer<f32>>) -> Result<(), Error> {
    done_scope(|scope| {
        let mut sum = 0.0;
        download.on_done_in(scope, |host| {
            sum = host.map_or(0.0, |host| host.iter().sum());
        })
    })
}

fn main() {}
