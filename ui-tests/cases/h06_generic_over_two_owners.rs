// H06 (E0277): a bundle that two streams own is asked for: there is none.
// Twin: h06_release_in_generic_function
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, OwnedBy, Stream};

cuda_rt::streams! {
    Compute;
    Download;
}

fn both<R: OwnedBy<Compute> + OwnedBy<Download>>(bundle: R) {
    drop(bundle);
}

fn main() {
    let gpu = Device::open_or_simulate().unwrap();
    let compute: Stream<Compute> = gpu.stream().unwrap();
    let frame: DeviceBuffer<f32, Compute> = compute.alloc_zeroed(64).unwrap();
    both(frame);
}
