// H12 (E0200): a program declares that `Download` owns what `Compute` owns.
// Twin: h12_swap_owners
use cuda_rt::{DeviceBuffer, Idle, OwnedBy};

cuda_rt::streams! {
    Compute;
    Download;
}

impl OwnedBy<Download> for DeviceBuffer<f32, Compute> {
    type Idle = DeviceBuffer<f32, Idle>;

    unsafe fn detach(self) -> Self::Idle {
        unreachable!()
    }
}

fn main() {}
