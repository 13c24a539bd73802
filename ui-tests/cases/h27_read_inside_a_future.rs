// H27 (E0277): the host reads what a pending future carries.
#![forbid(unsafe_code)]
use cuda_rt::{Handoff, PinnedBuffer};
use std::future::IntoFuture;

fn first(download: Handoff<PinnedBuffer<f32>>) -> f32 {
    let future = download.into_future();
    future[0]
}

fn main() {}
