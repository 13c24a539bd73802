// H26 (E0597): a closure that runs when a download is done is given a reference to what the
// function drops.
// Twin: h26_closure_borrows_the_stack
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, PinnedBuffer};
use std::sync::Mutex;

fn start(download: Handoff<PinnedBuffer<f32>>) -> Result<(), Error> {
    let sums = Mutex::new(Vec::new());
    let borrowed = &sums;
    download.on_done(move |host| {
        let sum: f32 = host.map_or(0.0, |host| host.iter().sum());
        borrowed.lock().unwrap().push(sum);
    })
}

fn main() {}
