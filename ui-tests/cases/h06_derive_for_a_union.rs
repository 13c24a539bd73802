// H06 (macro): which of its fields a union holds is not known, so nobody could hand over its
// buffers.
// Twin: h06_derive_for_an_enum
#![forbid(unsafe_code)]
use std::mem::ManuallyDrop;

use cuda_rt::{DeviceBuffer, Idle, PinnedBuffer, Place, Bundle};

#[derive(Bundle)]
union Frame<P: Place = Idle> {
    device: ManuallyDrop<DeviceBuffer<u8, P>>,
    host: ManuallyDrop<PinnedBuffer<u8, P>>,
}

fn main() {}
