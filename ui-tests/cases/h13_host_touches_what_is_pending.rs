// H13 (E0277, E0308, E0609): the host reads and writes what a handoff carries, or an unsettled
// `query`.
// Twin: h13_read_before_download_is_done
// Table: a handoff
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Handoff, PinnedBuffer, Query};

fn sum(values: &[f32]) -> f32 {
    values.iter().sum()
}

fn pinned(mut handoff: Handoff<PinnedBuffer<f32>>) {
    let _ = handoff[0];
    let _ = handoff[..4];
    let _ = handoff.iter().count();
    let _ = handoff.to_vec();
    handoff.fill(1.0);
    let _ = handoff == [1.0, 2.0];
    for _ in &handoff {}
    sum(&handoff); // Why not: a mismatch of types has no note of this project.
    let _ = handoff.peek().iter().count();
    for _ in handoff {}
}

fn device(handoff: Handoff<DeviceBuffer<f32>>) {
    let _ = handoff[0];
    let _ = handoff.iter().count();
    let _ = handoff == [1.0, 2.0];
}

fn queried(query: Query<PinnedBuffer<f32>>) {
    let _ = query[0];
    let _ = query.iter().count();
    let _ = query == [1.0, 2.0];
    for _ in query {}
}

fn bundle(handoff: Handoff<(PinnedBuffer<f32>, DeviceBuffer<f32>)>) {
    let _ = handoff[0];
    let _ = handoff.0; // Why not: a handoff has no fields. `handoff.split()` and `handoff.synchronize()` give the parts.
}

fn main() {}
