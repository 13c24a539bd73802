//! Streams of other owners, adopted for a closure.

use cuda_rt::simulator::{Call, Simulator};

use super::{Compute, LEN, on_a_foreign_stream, read};
use crate::devices::for_each_device;

/// Blocks that are allocated, and not kept free for their next owners.
fn buffers_live(simulator: &Simulator) -> usize {
    let counters = simulator.counters();
    counters.allocations_live - counters.blocks_free
}

#[test]
fn buffers_of_an_adopted_stream_outlive_it() {
    for_each_device(|gpu| {
        let made = || {
            on_a_foreign_stream(gpu, |stream| {
                let mut buffer = stream.alloc_zeroed::<u32>(LEN)?;
                stream.fill(&mut buffer, 9)?;
                // Freed on the adopted stream, in its order.
                drop(stream.alloc_zeroed::<u32>(LEN)?);
                stream.release(buffer)
            })
        };
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let kept = compute.acquire(made()).unwrap();
        drop(made());
        // Idle, and freed after its stream is destroyed.
        drop(made().synchronize().unwrap());
        let again = compute.adopt(made().synchronize().unwrap()).unwrap();
        assert_eq!(read(gpu, kept), [9; LEN]);
        assert_eq!(read(gpu, again), [9; LEN]);
        // In and out of several adoptions, one after another.
        let bounced = on_a_foreign_stream(gpu, |stream| {
            let mut buffer = stream.acquire(made())?;
            let (left, _) = buffer.split_at_mut(LEN / 2);
            stream.fill(left, 1)?;
            stream.release(buffer)
        });
        let bounced = read(gpu, compute.acquire(bounced).unwrap());
        assert_eq!((bounced[0], bounced[LEN - 1]), (1, 9));
        if let Some(simulator) = gpu.simulator() {
            // A late free ran on a stream that exists.
            compute.synchronize().unwrap();
            drop(compute.alloc_zeroed::<u32>(LEN).unwrap());
            assert_eq!(buffers_live(simulator), 0);
        }
    });
}

/// A bundle that an adopted stream shared is read, taken back and dropped after the stream is gone.
#[test]
fn bundles_shared_by_an_adopted_stream_outlive_it() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for lazily in [false, true] {
            let made = || {
                on_a_foreign_stream(gpu, |stream| {
                    let buffer = stream.init_filled(stream.alloc_uninit::<u32>(LEN)?, 9)?;
                    let shared = if lazily {
                        stream.share_lazily(buffer)?
                    } else {
                        stream.share(buffer)?
                    };
                    drop(stream.lease(&shared)?);
                    Ok(shared)
                })
            };
            drop(made());
            let shared = made();
            let lease = compute.lease(&shared).unwrap();
            let copy = compute.init_from(compute.alloc_uninit(LEN).unwrap(), &lease.view());
            drop(lease);
            let back = compute.acquire(shared.reclaim().unwrap()).unwrap();
            assert_eq!(read(gpu, copy.unwrap()), [9; LEN]);
            assert_eq!(read(gpu, back), [9; LEN]);
        }
        if let Some(simulator) = gpu.simulator() {
            compute.synchronize().unwrap();
            drop(compute.alloc_zeroed::<u32>(LEN).unwrap());
            assert_eq!(buffers_live(simulator), 0);
        }
    });
}

/// Parts whose last uses were on an adopted stream are freed on another stream, because the adopted
/// stream may be destroyed.
#[test]
fn parts_of_an_adopted_stream_outlive_it() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for left_over in [LEN, LEN / 2] {
            let rest = on_a_foreign_stream(gpu, |stream| {
                let mut buffer = stream.alloc_zeroed::<u32>(LEN)?;
                let rest = buffer.split_off(left_over);
                stream.fill(&mut buffer, 9)?;
                drop(buffer);
                stream.release(rest)
            });
            drop(rest.synchronize().unwrap());
        }
        let shared = compute.share(compute.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
        for value in 0..5 {
            let copy = on_a_foreign_stream(gpu, |stream| {
                let lease = stream.lease(&shared)?;
                stream.release(stream.init_from(stream.alloc_uninit(LEN)?, &lease.view())?)
            });
            let copy = compute.acquire(copy).unwrap();
            assert_eq!(read(gpu, copy), [0; LEN], "{value}");
        }
        let mut back = compute.acquire(shared.reclaim().unwrap()).unwrap();
        compute.fill(&mut back, 1).unwrap();
        assert_eq!(read(gpu, back), [1; LEN]);
        if let Some(simulator) = gpu.simulator() {
            compute.synchronize().unwrap();
            assert_eq!(buffers_live(simulator), 0);
        }
    });
}

/// A recording knows every stream that had work, and is finished when an adopted stream may be
/// destroyed.
#[test]
fn a_recording_outlives_an_adopted_stream() {
    for_each_device(|gpu| {
        for by_events in [false, true] {
            let recording = if by_events {
                gpu.record_timeline_by_events()
            } else {
                gpu.record_timeline()
            };
            // Another test may be recording the device.
            let Ok(recording) = recording else { continue };
            let filled = on_a_foreign_stream(gpu, |stream| {
                stream.release(stream.init_filled(stream.alloc_uninit::<u32>(LEN)?, 3)?)
            });
            let filled = filled.synchronize().unwrap();
            let timeline = recording.finish().unwrap();
            assert!(
                timeline
                    .spans()
                    .iter()
                    .any(|span| span.kind == cuda_rt::timeline::Kind::Fill)
            );
            drop(filled);
        }
    });
}

#[test]
fn two_adoptions_of_one_stream_are_two_streams() {
    for_each_device(|gpu| {
        let driver = gpu.driver();
        let raw = driver.create_stream(0).unwrap();
        // SAFETY: the stream is live and of this device. It is not capturing, and is destroyed only
        // below.
        let first = unsafe {
            gpu.adopt_stream(raw, |stream| {
                stream.release(stream.init_filled(stream.alloc_uninit::<u32>(LEN)?, 4)?)
            })
        };
        // SAFETY: as above.
        let host = unsafe {
            gpu.adopt_stream(raw, |stream| {
                let waits = || gpu.simulator().map(|sim| sim.counters().calls(Call::WaitEvent));
                let before = waits();
                let buffer = stream.acquire(first?)?;
                // Its owner may have destroyed the first stream meanwhile, and CUDA may have given
                // its handle to another.
                assert_eq!(
                    waits(),
                    before.map(|count| count + 1),
                    "the same handle is no proof"
                );
                let mut host = stream.adopt(gpu.pinned::<u32>(LEN)?)?;
                stream.copy_to_host(&buffer, &mut host)?;
                stream.release(host)
            })
        };
        let host = host.unwrap();
        // SAFETY: the stream is not used again.
        unsafe { driver.destroy_stream(raw) }.unwrap();
        assert_eq!(*host.synchronize().unwrap(), [4; LEN]);
    });
}
