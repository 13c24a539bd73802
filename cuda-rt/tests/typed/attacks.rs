//! Attacks by threads: which owning types may be sent to another thread or shared with it.
#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use cuda_rt::{Device, DeviceBuffer, Handoff, Idle, NoStream, PinnedBuffer, Slot};

cuda_rt::streams! {
    Compute;
}

/// Every owner may be moved to a thread, and no type lets two threads write the same memory.
#[test]
fn attack_send_and_share_owners_between_threads() {
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
    // A bundle's plain fields decide together with its buffers.
    assert_not_impl_any!(Handoff<Tagged<Idle>>: Send, Sync);
    assert_not_impl_any!(cuda_rt::Shared<Tagged<Idle>>: Send, Sync);
    assert_not_impl_any!(Slot<Tagged<Idle>>: Send, Sync);
    // No owner can be copied.
    assert_not_impl_any!(Handoff<DeviceBuffer<f32>>: Clone, std::ops::DerefMut);
    assert_not_impl_any!(DeviceBuffer<f32, Lane>: Clone);
    assert_not_impl_any!(cuda_rt::DeviceViewMut<'static, f32, Lane>: Clone);
    // An idle buffer gives a slice whose place no stream may use.
    assert_type_eq_all!(<DeviceBuffer<f32> as std::ops::Deref>::Target, cuda_rt::DeviceSlice<f32, Idle>);
    assert_not_impl_any!(Idle: cuda_rt::ReadBy<Lane>, cuda_rt::WriteBy<Lane>);
    // So does what is pending, shared, leased or constant, and the host may not use it either.
    type Unused = cuda_rt::DeviceSlice<f32, NoStream>;
    assert_type_eq_all!(<Handoff<DeviceBuffer<f32>> as std::ops::Deref>::Target, Unused);
    assert_type_eq_all!(
        <cuda_rt::Shared<DeviceBuffer<f32>> as std::ops::Deref>::Target,
        Unused
    );
    assert_type_eq_all!(
        <cuda_rt::Lease<DeviceBuffer<f32>, Lane> as std::ops::Deref>::Target,
        Unused
    );
    assert_type_eq_all!(
        <cuda_rt::Constant<DeviceBuffer<f32>, Lane> as std::ops::Deref>::Target,
        Unused
    );
    assert_type_eq_all!(
        <Handoff<PinnedBuffer<f32>> as std::ops::Deref>::Target,
        cuda_rt::PinnedSlice<f32, NoStream>
    );
    assert_not_impl_any!(NoStream: cuda_rt::ReadBy<Lane>, cuda_rt::WriteBy<Lane>, cuda_rt::HostPlace);
    assert_not_impl_any!(Lane: cuda_rt::HostPlace);
    assert_not_impl_any!(Idle: cuda_rt::HostPlace);
}

/// The implementations that only carry messages hold for no type that a program can name.
#[test]
fn attack_operators_that_only_carry_messages() {
    use static_assertions::assert_not_impl_any;
    type Lane = Compute<cuda_rt::Gpu<0>>;
    macro_rules! none {
        ($($memory:ty),* $(,)?) => { $(
            assert_not_impl_any!($memory: PartialEq, PartialEq<[f32; 2]>, PartialEq<std::convert::Infallible>, Iterator);
            assert_not_impl_any!(&'static $memory: IntoIterator);
            assert_not_impl_any!(&'static mut $memory: IntoIterator);
        )* };
    }
    none! {
        PinnedBuffer<f32, Lane>, DeviceBuffer<f32, Lane>, DeviceBuffer<f32>,
        cuda_rt::PinnedView<'static, f32, Lane>, cuda_rt::DeviceViewMut<'static, f32, Lane>,
        cuda_rt::PinnedView<'static, f32, cuda_rt::OnHost>,
        Handoff<PinnedBuffer<f32>>, cuda_rt::Shared<PinnedBuffer<f32>>, Slot<PinnedBuffer<f32>>,
        cuda_rt::Lease<PinnedBuffer<f32>, Lane>, cuda_rt::Constant<PinnedBuffer<f32>, Lane>,
        cuda_rt::Query<PinnedBuffer<f32>>,
    }
    assert_not_impl_any!(PinnedBuffer<f32, Lane>: AsRef<[f32]>);
    assert_not_impl_any!(DeviceBuffer<f32, Lane>: AsRef<[f32]>);
    assert_not_impl_any!(Vec<f32>: PartialEq<PinnedBuffer<f32, Lane>>, PartialEq<DeviceBuffer<f32>>);
    assert_not_impl_any!(Handoff<PinnedBuffer<f32>>: std::ops::Index<usize>, std::ops::Index<std::ops::RangeFull>);
}

#[derive(cuda_rt::Bundle)]
struct Tagged<P: cuda_rt::Place = Idle> {
    buffer: DeviceBuffer<u8, P>,
    #[bundle(plain)]
    raw: std::marker::PhantomData<*mut ()>,
}
