// H01 (E0277): a stream uses what a handoff carries, without acquiring it.
// Twin: h01_read_without_handoff
// Table: a handoff, on a stream
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Handoff, PinnedBuffer, Stream};

cuda_rt::streams! {
    Compute;
}

fn used(
    compute: &Stream<Compute>,
    mut handoff: Handoff<DeviceBuffer<f32>>,
    mut pinned: Handoff<PinnedBuffer<f32>>,
    mine: &mut DeviceBuffer<f32, Compute>,
) -> Result<(), Error> {
    compute.copy(&handoff, mine)?;
    compute.copy_to_slice(&handoff, &mut [0.0])?;
    compute.copy(mine, &mut handoff)?;
    compute.copy_to_host(mine, &mut pinned)?;
    compute.fill(&mut handoff, 1.0)?;
    compute.fill(&mut handoff[..2], 1.0)?;
    compute.release(handoff)?;
    compute.adopt(pinned)?;
    Ok(())
}

fn main() {}
