// H12 (E0308): a field of `Compute` is replaced by a buffer of `Download`.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::DeviceBuffer;

cuda_rt::streams! {
    Compute;
    Download;
}

struct Stage {
    frame: DeviceBuffer<f32, Compute>,
}

fn refill(stage: &mut Stage, fresh: DeviceBuffer<f32, Download>) -> DeviceBuffer<f32, Compute> {
    std::mem::replace(&mut stage.frame, fresh)
}

fn main() {}
