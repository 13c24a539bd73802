// H12 (lint): the same with `unsafe`, in a crate that forbids it.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Idle, OwnedBy};

cuda_rt::streams! {
    Compute;
    Download;
}

unsafe impl OwnedBy<Download> for DeviceBuffer<f32, Compute> {
    type Idle = DeviceBuffer<f32, Idle>;

    unsafe fn detach(self) -> Self::Idle {
        unreachable!()
    }
}

fn main() {}
