//! Attacks by threads: what may be sent or shared, of all types that own something.
#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use cuda_rt::{Device, DeviceBuffer, Handoff, Idle, PinnedBuffer, Slot};

cuda_rt::streams! {
    Compute;
}

/// Everything that owns may be moved to a thread, and nothing lets two threads write one thing.
#[test]
fn attack_send_and_share_what_must_not_be() {
    use static_assertions::{assert_impl_all, assert_not_impl_any, assert_type_eq_all};
    type Lane = Compute<cuda_rt::Gpu<0>>;
    assert_impl_all!(Device: Send, Sync);
    assert_impl_all!(cuda_rt::Stream<Lane>: Send, Sync);
    assert_impl_all!(DeviceBuffer<f32, Lane>: Send, Sync);
    assert_impl_all!(DeviceBuffer<MaybeUninit<f32>, Lane>: Send, Sync);
    assert_impl_all!(PinnedBuffer<f32>: Send, Sync);
    assert_impl_all!(Handoff<(DeviceBuffer<f32>, PinnedBuffer<u8>)>: Send, Sync);
    assert_impl_all!(Slot<PinnedBuffer<u8>>: Send, Sync);
    assert_impl_all!(cuda_rt::Shared<DeviceBuffer<f32>>: Send, Sync);
    assert_impl_all!(cuda_rt::Lease<DeviceBuffer<f32>, Lane>: Send, Sync);
    assert_impl_all!(cuda_rt::Graph<DeviceBuffer<f32>, Lane>: Send);
    assert_not_impl_any!(cuda_rt::Graph<DeviceBuffer<f32>, Lane>: Sync, Clone);
    // What is plain in a bundle decides with it.
    assert_not_impl_any!(Handoff<Tagged<Idle>>: Send, Sync);
    assert_not_impl_any!(cuda_rt::Shared<Tagged<Idle>>: Send, Sync);
    assert_not_impl_any!(Slot<Tagged<Idle>>: Send, Sync);
    // Nothing that owns can be copied.
    assert_not_impl_any!(Handoff<DeviceBuffer<f32>>: Clone, std::ops::Deref);
    assert_not_impl_any!(DeviceBuffer<f32, Lane>: Clone);
    assert_not_impl_any!(cuda_rt::DeviceViewMut<'static, f32, Lane>: Clone);
    // Of an idle one there is a slice, of a place that no stream may use.
    assert_type_eq_all!(<DeviceBuffer<f32> as std::ops::Deref>::Target, cuda_rt::DeviceSlice<f32, Idle>);
    assert_not_impl_any!(Idle: cuda_rt::ReadBy<Lane>, cuda_rt::WriteBy<Lane>);
}

#[derive(cuda_rt::Bundle)]
struct Tagged<P: cuda_rt::Place = Idle> {
    buffer: DeviceBuffer<u8, P>,
    #[resource(plain)]
    raw: std::marker::PhantomData<*mut ()>,
}
