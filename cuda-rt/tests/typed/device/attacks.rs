//! Attacks by dropping the device before objects that it lent.
#![forbid(unsafe_code)]

use cuda_rt::Slot;

use crate::leftovers::nothing_is_left;

cuda_rt::streams! {
    Compute;
}

const LEN: usize = 128;

/// The last handle to a device is a pending handoff, a slot, or idle memory.
#[test]
fn attack_drop_the_device_before_its_objects() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut device = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let idle = gpu.pinned::<u32>(LEN).unwrap();
        let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        compute.fill(&mut device, 5).unwrap();
        compute.copy_to_host(&device, &mut host).unwrap();
        let handoff = compute.release(host).unwrap();
        let slot = Slot::from(compute.release(device).unwrap());
        drop(compute);
        drop(gpu);
        assert_eq!(*handoff.synchronize().unwrap(), [5; LEN]);
        drop(slot);
        assert_eq!(*idle, [0; LEN]);
    });
}

/// Marks, pools and events outlive the streams and the device that they came from.
#[test]
fn attack_use_marks_and_pools_after_the_device_is_dropped() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let pool = gpu.stream_pool(2).unwrap();
        let start = compute.record_timed_event().unwrap();
        let handoff = pool
            .with(|stream| {
                pool.with(|other| {
                    let buffer = other.acquire(stream.release(stream.alloc_zeroed::<u32>(LEN)?)?)?;
                    other.release(buffer)
                })
            })
            .unwrap();
        let end = compute.record_timed_event().unwrap();
        drop((gpu, pool));
        compute.acquire(handoff).unwrap();
        drop(compute);
        let (start, end) = (start.synchronize().unwrap(), end.synchronize().unwrap());
        assert!(end.elapsed_ms_since(&start).unwrap() >= 0.0);
    });
}
