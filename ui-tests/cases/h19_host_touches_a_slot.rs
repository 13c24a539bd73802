// H19 (E0277, E0308): the host and streams use what is in a slot.
// Twin: h19_slot_used_within_itself
// Table: a slot
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Slot, Stream};

cuda_rt::streams! {
    Compute;
}

fn sum(values: &[f32]) -> f32 {
    values.iter().sum()
}

fn touched(
    mut slot: Slot<PinnedBuffer<f32>>,
    compute: &Stream<Compute>,
    mut data: Slot<DeviceBuffer<f32>>,
) -> Result<(), Error> {
    let _ = slot[0];
    let _ = slot.iter().count();
    let _ = slot.to_vec();
    slot.fill(1.0);
    let _ = slot == [1.0, 2.0];
    for _ in &slot {}
    sum(&slot); // Why not: a mismatch of types has no note of this project.
    let _ = data.iter().count();
    compute.fill(&mut data, 1.0)?; // Why not: a mismatch of types has no note of this project.
    Ok(())
}

fn main() {}
