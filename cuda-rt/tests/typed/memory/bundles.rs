//! Tuples, arrays, `Vec` and `Option` of bundles, in generic code.
#![forbid(unsafe_code)]

use cuda_rt::{Bundle, DeviceBuffer, OwnedBy, Stream, StreamTag};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Download;
}

/// A handoff in generic code that names no stream.
fn hop<A: StreamTag, B: StreamTag<Device = A::Device>, R: OwnedBy<A>>(
    from: &Stream<A>,
    to: &Stream<B>,
    bundle: R,
) -> <R::Idle as Bundle>::On<B> {
    to.acquire(from.release(bundle).unwrap()).unwrap()
}

#[test]
fn generic_code_moves_bundles() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let bundle = (
            compute.alloc_zeroed::<f32>(8).unwrap(),
            [compute.alloc_zeroed::<u8>(4).unwrap()],
        );
        let (a, [_b]) = hop(&compute, &download, bundle);
        let _: &DeviceBuffer<f32, Download<_>> = &a;
    });
}
