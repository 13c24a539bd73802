// H05 (E0271, E0277): a closure acquires a handoff, and does not name its type.
// Twin: h05_acquire_twice
// Table: a closure whose parameter is a handoff
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, Stream};

cuda_rt::streams! {
    Compute;
}

fn refill(stream: &Stream<Compute>, pending: Vec<Handoff<cuda_rt::DeviceBuffer<f32>>>) -> Result<(), Error> {
    let filled = |handoff| {
        let mut data = stream.acquire(handoff)?; // Why not: rustc infers `data` from `fill` below. Write `|handoff: Handoff<DeviceBuffer<f32>>|`.
        stream.fill(&mut data, 1.0)?;
        stream.release(data)
    };
    pending.into_iter().map(filled).collect::<Result<Vec<_>, Error>>()?;
    Ok(())
}

fn main() {}
