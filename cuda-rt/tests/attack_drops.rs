//! Attacks by dropping in odd orders: the device before what it lent, tokens inside captures, while
//! work is pending.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Error, Live, Slot};

cuda_rt::streams! {
    Compute;
    Download;
}

const LEN: usize = 128;

/// Runs `body` in several orders; whatever it dropped and did not leak is gone with the device,
/// whose last handle it gets.
fn nothing_is_left(body: impl for<'id> Fn(Device<cuda_rt::Scoped<'id>>)) {
    let random = (0..12).map(|seed| SimConfig::default().seed(seed));
    for config in random.chain([SimConfig::default().order(Order::Lazy)]) {
        let simulator = Device::simulated(config, |gpu| {
            let simulator = gpu.simulator().unwrap().clone();
            body(gpu);
            simulator
        })
        .unwrap();
        let left = simulator.counters();
        let live = [
            left.streams_live,
            left.events_live,
            left.graphs_live,
            left.allocations_live,
            left.registrations_live,
        ];
        assert_eq!(
            live, [0; 5],
            "streams, events, graphs, allocations, registrations"
        );
    }
}

/// The last handle to a device is a pending handoff, or a slot, or idle memory.
#[test]
fn attack_drop_the_device_before_what_it_made() {
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

/// Pinned memory whose download is pending goes with the device: unmapping waits for it.
#[test]
fn attack_drop_the_device_with_a_download_into_dropped_memory() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let device = compute.alloc_zeroed::<u32>(LEN).unwrap();
        for _ in 0..4 {
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            compute.copy_to_host(&device, &mut host).unwrap();
            drop(host);
        }
    });
}

/// A graph dropped, or taken apart, while its launches are pending.
#[test]
fn attack_drop_a_graph_that_is_running() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let capture = || {
            let buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
            let mut graph = compute
                .capture(buffer, |stream, mut view| {
                    let mut temporary = stream.alloc_zeroed::<u32>(LEN)?;
                    stream.fill(&mut temporary, 3)?;
                    stream.copy(&temporary, &mut view)
                })
                .unwrap();
            graph.launch(&compute).unwrap();
            graph.launch(&compute).unwrap();
            graph
        };
        drop(capture());
        let buffer = capture().into_inner();
        let mut next = compute.alloc_zeroed::<u32>(LEN).unwrap();
        compute.fill(&mut next, 9).unwrap();
        let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [3; LEN]);
    });
}

/// Handoffs and buffers of the inside and of the outside, dropped inside a capture.
#[test]
fn attack_drop_handoffs_inside_a_capture() {
    nothing_is_left(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut outside = download.alloc_zeroed::<u32>(LEN).unwrap();
        download.fill(&mut outside, 4).unwrap();
        let outside = download.release(outside).unwrap();
        let pinned = gpu.pinned::<u32>(LEN).unwrap();
        let pending = download.release(download.adopt(pinned).unwrap()).unwrap();
        let mut graph = compute
            .capture(compute.alloc_zeroed::<u32>(LEN).unwrap(), |stream, mut view| {
                drop((outside, pending));
                let fork = stream.fork::<Download<_>>()?;
                let mut inside = fork.alloc_zeroed::<u32>(LEN)?;
                fork.fill(&mut inside, 8)?;
                drop(fork.release(inside)?);
                stream.fill(&mut view, 1)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let buffer = graph.into_inner();
        let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [1; LEN]);
    });
}

/// Every stream of a capture is left by an error, a panic, or an ignored error, with forks that
/// hold work.
#[test]
fn attack_leave_a_capture_in_every_way() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let simulator = gpu.simulator().unwrap();
        let bundle = || compute.alloc_zeroed::<u32>(LEN).unwrap();
        let failed = compute.capture(bundle(), |stream, mut view| {
            let fork = stream.fork::<Download<_>>()?;
            let temporary = fork.alloc_zeroed::<u32>(LEN)?;
            stream.fill(&mut view, 1)?;
            drop(temporary);
            Err(Error::SlotEmpty)
        });
        assert!(matches!(failed, Err(Error::SlotEmpty)));
        let ignored = compute.capture(bundle(), |stream, mut view| {
            simulator.fail_next(Call::WaitEvent, ErrorCode::OUT_OF_MEMORY);
            let _ = stream.fork::<Download<_>>();
            stream.fill(&mut view, 1)
        });
        assert!(ignored.is_err(), "the fork is not in the capture");
        let unjoined = compute.capture(bundle(), |stream, mut view| {
            let fork = stream.fork::<Download<_>>()?;
            // The wait at the end of the loan.
            simulator.fail_nth(Call::WaitEvent, 2, ErrorCode::OUT_OF_MEMORY);
            let _ = stream.lend(&fork, &mut view, |view| fork.fill(view, 2));
            stream.fill(&mut view, 1)
        });
        assert!(unjoined.is_err(), "the fill of the fork is not ordered");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = compute.capture(bundle(), |stream, mut view| {
                let fork = stream.fork::<Download<_>>()?;
                let _temporary = fork.alloc_zeroed::<u32>(LEN)?;
                stream.lend(&fork, &mut view, |view| {
                    fork.fill(view, 2).unwrap();
                    std::panic::panic_any(())
                })
            });
        }));
        assert!(panicked.is_err());
        compute.synchronize().unwrap();
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

/// The reaper could not be made to wait: what is dropped is leaked, not freed under its last user.
#[test]
fn attack_free_behind_a_wait_that_failed() {
    fn drop_pending<D: Live>(gpu: &Device<D>) {
        let compute = gpu.stream::<Compute<D>>().unwrap();
        let buffers = [(); 2].map(|()| compute.alloc_zeroed::<u32>(LEN).unwrap());
        let handoff = compute.release(buffers).unwrap();
        let simulator = gpu.simulator().unwrap();
        let frees = simulator.counters().calls(Call::Free);
        simulator.fail_next(Call::WaitEvent, ErrorCode::OUT_OF_MEMORY);
        drop(handoff);
        assert_eq!(
            simulator.counters().calls(Call::Free) - frees,
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

/// The device goes while a download into dropped memory may be pending, and cannot be waited for:
/// the memory stays mapped and page-locked.
#[test]
fn attack_unmap_behind_a_wait_that_failed() {
    for seed in 0..12 {
        let simulator = Device::simulated(SimConfig::default().seed(seed).order(Order::Lazy), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let device = compute.alloc_zeroed::<u32>(LEN).unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            compute.copy_to_host(&device, &mut host).unwrap();
            drop(host);
            let simulator = gpu.simulator().unwrap().clone();
            simulator.fail_next(Call::SynchronizeEvent, ErrorCode::OUT_OF_MEMORY);
            simulator
        })
        .unwrap();
        assert_eq!(simulator.counters().registrations_live, 1);
    }
}
