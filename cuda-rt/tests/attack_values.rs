//! Attacks with unusual elements, lengths and bundles.
#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Handoff, Idle, PinnedBuffer, Slot};

cuda_rt::streams! {
    Compute;
    Download;
}

/// Elements of no bytes: any number of them fits, at no address of the device's.
#[test]
fn attack_as_many_elements_of_no_bytes_as_an_index_can_number() {
    Device::simulated(SimConfig::default(), |gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut device = stream.alloc_zeroed::<[u32; 0]>(usize::MAX).unwrap();
        stream.fill(&mut device[1..], []).unwrap();
        let (left, right) = device.split_at_mut(usize::MAX / 2);
        stream.copy(&left[5..9], &mut right[..4]).unwrap();
        assert_eq!(device.chunks_exact(usize::MAX).count(), 1);
        let host = stream.adopt(gpu.pinned::<[u32; 0]>(usize::MAX).unwrap()).unwrap();
        stream.copy_to_device(&host, &mut device).unwrap();
        let host = stream.release(host).unwrap().synchronize().unwrap();
        assert_eq!((host.len(), host[usize::MAX - 1]), (usize::MAX, []));
        assert_eq!(gpu.simulator().unwrap().counters().allocations_live, 0);
    })
    .unwrap();
}

/// The most alignment that device memory has; an element that needs more does not build.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable, device_std::Element)]
#[repr(C, align(256))]
struct Wide([u8; 256]);

#[test]
fn attack_elements_of_the_most_alignment() {
    Device::simulated(SimConfig::default(), |gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut device = stream.alloc_zeroed::<Wide>(3).unwrap();
        stream.fill(&mut device[1..], Wide([7; 256])).unwrap();
        let mut host = stream.adopt(gpu.pinned::<Wide>(3).unwrap()).unwrap();
        stream.copy_to_host(&device, &mut host).unwrap();
        let host = stream.release(host).unwrap().synchronize().unwrap();
        assert!(host.as_ptr().is_aligned());
        assert_eq!(*host, [Wide([0; 256]), Wide([7; 256]), Wide([7; 256])]);
    })
    .unwrap();
}

#[test]
fn attack_lengths_whose_bytes_overflow() {
    Device::simulated(SimConfig::default(), |gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        for len in [
            usize::MAX,
            usize::MAX / 8 + 1,
            (isize::MAX as usize) / 8 + 1,
            usize::MAX / 16,
        ] {
            assert!(stream.alloc_zeroed::<u64>(len).is_err(), "{len}");
            assert!(stream.alloc_uninit::<[u64; 3]>(len).is_err(), "{len}");
            assert!(gpu.pinned::<u64>(len).is_err(), "{len}");
        }
        assert!(gpu.pinned::<u8>(isize::MAX as usize).is_err());
    })
    .unwrap();
}

fn panics<T>(body: impl FnOnce() -> T) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err()
}

#[test]
fn attack_ranges_outside_or_inside_out() {
    Device::simulated(SimConfig::default(), |gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut device = stream.alloc_zeroed::<u64>(8).unwrap();
        let mut host = stream.adopt(gpu.pinned::<u64>(8).unwrap()).unwrap();
        let (start, end) = (5, 3);
        assert!(panics(|| device[start..end].len()));
        assert!(panics(|| device[..9].len()));
        assert!(panics(|| device[9..].len()));
        assert!(panics(|| device[0..=usize::MAX].len()));
        assert!(panics(|| device[..=8].len()));
        assert!(panics(|| host[start..end].len()));
        assert!(panics(|| host[0..=usize::MAX].len()));
        assert!(panics(|| device.split_at(9).0.len()));
        assert!(panics(|| device.split_at_mut(usize::MAX).0.len()));
        assert!(panics(|| host.split_at_mut(9).0.len()));
        assert!(panics(|| device.chunks_exact(0).count()));
        assert_eq!(device.chunks_exact(usize::MAX).count(), 0);
        assert_eq!((device[8..].len(), host[8..].len()), (0, 0));
    })
    .unwrap();
}

/// What a slot lends can be swapped for another bundle, even an empty one: the bundle that was
/// taken out is still owned by the same stream, and so is the one that was put in.
#[test]
fn attack_swap_what_a_slot_lends() {
    for seed in 0..16 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| {
            let (compute, download) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Download<_>>().unwrap(),
            );
            let pair = |value| {
                let mut device = compute.alloc_zeroed::<u32>(32).unwrap();
                compute.fill(&mut device, value).unwrap();
                device
            };
            let mut slot = Slot::from(compute.release(vec![pair(1), pair(2)]).unwrap());
            let taken = slot
                .on(&download, |buffers| {
                    let mut taken = std::mem::take(buffers);
                    taken.swap(0, 1);
                    taken
                })
                .unwrap();
            assert_eq!(slot.host(|buffers| buffers.len()).unwrap(), 0);
            let mut host = download.adopt(gpu.pinned::<u32>(32).unwrap()).unwrap();
            download.copy_to_host(&taken[0], &mut host).unwrap();
            slot.on(&download, |buffers| *buffers = taken).unwrap();
            slot.on(&compute, |buffers| compute.fill(&mut buffers[0], 7))
                .unwrap()
                .unwrap();
            let host = download.release(host).unwrap().synchronize().unwrap();
            assert_eq!(*host, [2; 32]);
        })
        .unwrap();
    }
}

/// Swaps the idle bundle of a slot for another, and keeps using the first on the host.
#[test]
fn attack_swap_what_a_slot_lends_to_the_host() {
    for seed in 0..16 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut slot = Slot::new(gpu.pinned_from(&[1u32; 64]).unwrap());
            let mut device = compute.alloc_zeroed::<u32>(64).unwrap();
            slot.on(&compute, |host| compute.copy_to_device(host, &mut device))
                .unwrap()
                .unwrap();
            let mut taken = slot
                .host(|host| std::mem::replace(host, gpu.pinned(64).unwrap()))
                .unwrap();
            taken.fill(5);
            slot.on(&compute, |host| compute.copy_to_host(&device, host))
                .unwrap()
                .unwrap();
            assert!(slot.host(|host| **host == [1; 64]).unwrap());
        })
        .unwrap();
    }
}

/// A panic while a slot lends to the host, after the bundle was taken out.
#[test]
fn attack_panic_in_a_slot_that_was_emptied() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut slot = Slot::new(Some(gpu.pinned_from(&[1u32; 64]).unwrap()));
        let mut kept = None;
        assert!(panics(|| slot.on(&compute, |host| {
            kept = host.take();
            std::panic::panic_any(());
        })));
        assert!(panics(|| slot.host(|host| {
            assert!(host.is_none());
            std::panic::panic_any(());
        })));
        let back = compute.release(kept).unwrap();
        slot = Slot::from(back);
        assert!(slot.host(|host| host.as_deref() == Some(&[1; 64])).unwrap());
    })
    .unwrap();
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
