//! Attacks on buffers: unusual elements and lengths, and frees after a failed wait.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, Live};

cuda_rt::streams! {
    Compute;
}

/// Elements of size zero: any number of them fits, and none has an address on the device.
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

/// The largest alignment of device memory; an element that needs more does not build.
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

const LEN: usize = 128;

/// The stream for frees could not be made to wait: a dropped buffer is leaked, not freed under its
/// last user.
#[test]
fn attack_free_behind_a_wait_that_failed() {
    fn drop_pending<D: Live>(gpu: &Device<D>) {
        let compute = gpu.stream::<Compute<D>>().unwrap();
        let buffers = [(); 2].map(|()| compute.alloc_zeroed::<u32>(LEN).unwrap());
        let handoff = compute.release(buffers).unwrap();
        let simulator = gpu.simulator().unwrap();
        let frees = simulator.counters().frees();
        simulator.fail_next(Call::WaitEvent, ErrorCode::OUT_OF_MEMORY);
        drop(handoff);
        assert_eq!(
            simulator.counters().frees() - frees,
            1,
            "the wait for the first failed, that for the second did not"
        );
    }
    let simulator = Device::simulated(SimConfig::default(), |gpu| {
        drop_pending(&gpu);
        gpu.simulator().unwrap().clone()
    })
    .unwrap();
    let left = simulator.counters();
    assert_eq!(
        (left.allocations_live, left.streams_live, left.events_live),
        (1, 0, 0)
    );
}
