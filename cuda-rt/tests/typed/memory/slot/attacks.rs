//! Attacks on slots: the lent bundle is swapped, and a closure panics with an empty slot.
#![forbid(unsafe_code)]

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Slot};

cuda_rt::streams! {
    Compute;
    Download;
}

fn panics<T>(body: impl FnOnce() -> T) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err()
}

/// The bundle that a slot lends can be swapped for another bundle, even an empty one. The same
/// stream still owns both the bundle taken out and the bundle put in.
#[test]
fn attack_swap_the_bundle_that_a_slot_lends() {
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

/// Swaps the idle bundle of a slot for another, and still uses the first on the host.
#[test]
fn attack_swap_the_bundle_that_a_slot_lends_to_the_host() {
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

/// A panic while a slot lends to the host, after the closure took the bundle out.
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
