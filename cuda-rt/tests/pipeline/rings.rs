//! Rings without a pipeline.

use cuda_rt::Handoff;
use cuda_rt::pipeline::Ring;

use super::*;

#[test]
fn a_ring_gives_a_slot_out_once_and_takes_it_back_pending() {
    for_each_device(|gpu| {
        let (upload, compute) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Compute<_>>().unwrap(),
        );
        let slots = (0..2).map(|_| Handoff::ready(gpu.pinned::<u32>(64).unwrap()));
        let ring = Ring::new(gpu, slots.collect());
        let mut device = upload.alloc_zeroed::<u32>(64).unwrap();
        for round in 0..20_u32 {
            let mut slot = ring.take();
            let other = ring.try_take();
            assert!(other.is_some() && ring.try_take().is_none(), "two slots");
            drop(other);
            // The host waits for the last round's copy from this memory. It does not wait for this
            // round's copy.
            slot.host(|memory| memory.fill(round)).unwrap();
            std::thread::scope(|scope| {
                let copy =
                    scope.spawn(|| slot.on(&upload, |memory| upload.copy_to_device(memory, &mut device)));
                copy.join().unwrap().unwrap().unwrap();
            });
            drop(slot);
        }
        let device = compute.acquire(upload.release(device).unwrap()).unwrap();
        assert_eq!(to_host(gpu, device), [19; 64]);
    });
}

#[test]
fn h22_a_leaked_turn_is_a_slot_that_never_comes_back() {
    for_each_device(|gpu| {
        let ring = Ring::new(gpu, vec![Handoff::ready(gpu.pinned::<u8>(8).unwrap())]);
        assert_eq!(ring.slots(), 1);
        std::mem::forget(ring.take());
        assert!(ring.try_take().is_none());
    });
}

#[test]
fn a_slot_guard_outlives_its_ring() {
    for_each_device(|gpu| {
        let ring = Ring::new(gpu, vec![Handoff::ready(gpu.pinned::<u8>(8).unwrap())]);
        let mut slot = ring.take();
        drop(ring);
        slot.host(|memory| memory.fill(1)).unwrap();
    });
}
