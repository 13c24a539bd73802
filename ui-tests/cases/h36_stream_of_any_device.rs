// H36 (E0277): a stream of a tag leases memory whose device is known at run time only.
// Twin: h36_kept_bundle_of_a_named_device
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, DeviceBuffer, Handoff, Idle, Shared, Stream};

cuda_rt::streams! {
    Compute;
}

type Data = DeviceBuffer<f32, Idle<AnyDevice>>;

fn read(handoff: Handoff<Data>, shared: Shared<Data>, compute: &Stream<Compute>) {
    let _ = compute.lease(&shared);
    let _ = compute.acquire(handoff);
}

fn main() {}
