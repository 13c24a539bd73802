// H24 (lifetime): handoffs of two devices get one type, and each could be acquired on the other.
// Twin: h23_scopes_mixed_by_recursion
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Handoff, Idle, Scoped};

fn narrow<'long: 'short, 'short>(
    handoff: Handoff<DeviceBuffer<f32, Idle<Scoped<'long>>>>,
) -> Handoff<DeviceBuffer<f32, Idle<Scoped<'short>>>> {
    handoff
}

fn main() {}
