// H27 (E0382): a handoff is acquired while a future, which may be dropped half-way, waits for it.
// Twin: h27_read_inside_a_future
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Handoff, Stream};
use std::future::IntoFuture;

cuda_rt::streams! {
    Compute;
}

async fn next(compute: &Stream<Compute>, frame: Handoff<DeviceBuffer<f32>>) -> Result<(), Error> {
    let waiting = frame.into_future();
    let frame = compute.acquire(frame)?;
    drop((waiting.await?, frame));
    Ok(())
}

fn main() {}
