//! Attacks on parts, shared parts and what waits on behalf of others.
#![forbid(unsafe_code)]

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cuda_rt::driver::{DeviceAddress, ErrorCode, ForeignUse, RawStream};
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Handoff, PinnedBuffer, Scoped, Stream};

cuda_rt::streams! { Download; Compute; }

const LEN: usize = 64;

fn downloading<'id>(
    gpu: &Device<Scoped<'id>>,
    download: &Stream<Download<Scoped<'id>>>,
) -> Handoff<PinnedBuffer<u32, cuda_rt::Idle<Scoped<'id>>>> {
    let mut data = download.alloc_zeroed::<u32>(LEN).unwrap();
    for value in 0..200 {
        download.fill(&mut data, value).unwrap();
    }
    let mut host = download.adopt(gpu.pinned(LEN).unwrap()).unwrap();
    download.copy_to_host(&data, &mut host).unwrap();
    download.release(host).unwrap()
}

/// The last holder of a waker is whoever waits for the event, once the future is gone. What its
/// drop panics with must not end the thread that all other futures of the device rely on.
#[test]
fn attack_panic_in_the_drop_of_a_cancelled_waker() {
    struct Bomb(Arc<AtomicUsize>);
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            if thread::current().name() == Some("cuda-rt-events") {
                self.0.fetch_add(1, Ordering::SeqCst);
                panic!("a waker of the test panics when it is dropped");
            }
        }
    }
    struct Tell(mpsc::Sender<()>);
    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let config = SimConfig::default().order(Order::Lazy).most_pending(usize::MAX);
    Device::simulated(config, |gpu| {
        let download = gpu.stream::<Download<_>>().unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let mut future = downloading(&gpu, &download).into_future();
            let waker = Waker::from(Arc::new(Bomb(Arc::clone(&dropped))));
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            drop(waker);
            drop(future);
        }
        let (sender, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Tell(sender)));
        let mut future = downloading(&gpu, &download).into_future();
        let start = Instant::now();
        let host = loop {
            match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(host) => break host.unwrap(),
                Poll::Pending => drop(woken.recv_timeout(Duration::from_secs(5))),
            }
            assert!(start.elapsed() < Duration::from_secs(5), "never woken");
        };
        assert_eq!(*host, [199; LEN]);
        assert!(dropped.load(Ordering::SeqCst) > 0, "none was cancelled");
    })
    .unwrap();
}

/// Halves of one block: one shared, leased, and the lease moved into a graph; the other written,
/// split again and dropped in a capture, on a pooled stream, and behind a record that failed. In no
/// order may the block be freed early, or twice.
#[test]
fn attack_a_part_in_a_lease_in_a_graph_while_the_rest_is_dropped_elsewhere() {
    for (seed, lost) in (0..60).flat_map(|seed| [(seed, false), (seed, true)]) {
        let config = SimConfig::default().seed(seed).order(Order::Lazy);
        Device::simulated(config, |gpu| {
            let (compute, download) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Download<_>>().unwrap(),
            );
            let pool = gpu.stream_pool(1).unwrap();
            let simulator = gpu.simulator().unwrap().clone();
            let mut first = compute.alloc_uninit::<u32>(3 * LEN).unwrap();
            let mut rest = first.split_off(LEN);
            let last = rest.split_off(LEN);
            let nothing = rest.split_off(LEN);
            let first = compute.init_filled(first, 7).unwrap();
            let shared = compute.share((first, nothing)).unwrap();
            let rest = compute.release(rest).unwrap();
            let last = compute.release(last).unwrap();
            let out = download.alloc_zeroed::<u32>(LEN).unwrap();
            let lease = download.lease(&shared).unwrap();
            let mut graph = download
                .capture((lease, out), |stream, ((first, _), mut out)| {
                    // Of the outside, and dropped while something else is recorded.
                    drop(last);
                    stream.copy(&first, &mut out)
                })
                .unwrap();
            graph.launch(&download).unwrap();
            pool.with(|stream| {
                let rest = stream.init_filled(stream.acquire(rest)?, 9)?;
                if lost {
                    simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
                }
                drop(rest);
                let lease = stream.lease(&shared)?;
                stream.release(lease).map(drop)
            })
            .unwrap();
            graph.launch(&download).unwrap();
            let (lease, out) = graph.into_inner();
            let mut host = download.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            download.copy_to_host(&out, &mut host).unwrap();
            let Err(shared) = shared.reclaim() else {
                panic!("a lease is out")
            };
            drop(lease);
            let (mut first, nothing) = compute.acquire(shared.reclaim().unwrap()).unwrap();
            compute.fill(&mut first, 1).unwrap();
            drop(first);
            drop((nothing, out));
            assert_eq!(*download.release(host).unwrap().synchronize().unwrap(), [7; LEN]);
            drop(compute.alloc_zeroed::<u32>(LEN).unwrap());
            compute.synchronize().unwrap();
            drop(gpu.stream::<Download<_>>().unwrap().synchronize());
            assert_eq!(
                simulator.counters().allocations_live,
                usize::from(lost),
                "seed {seed}"
            );
            assert!(gpu.races().is_empty());
        })
        .unwrap();
    }
}

/// Halves of one pinned block go to two devices; the last one dropped takes the block to its
/// device's pool, which must not hand it out while the other device still writes to it, nor when
/// that device is gone.
#[test]
fn attack_halves_of_a_pinned_block_on_two_devices() {
    for (seed, here_last) in (0..60).flat_map(|seed| [(seed, false), (seed, true)]) {
        let config = || {
            SimConfig::default()
                .seed(seed)
                .order(Order::Lazy)
                .most_pending(usize::MAX)
        };
        Device::simulated(config(), |there| {
            Device::simulated(config(), |here| {
                let (ours, theirs) = (
                    here.stream::<Download<_>>().unwrap(),
                    there.stream::<Download<_>>().unwrap(),
                );
                let mut first = here.pinned::<u32>(2 * LEN).unwrap();
                let second = first.split_off(LEN).for_device(&there).unwrap();
                let (one, two) = (
                    ours.init_filled(ours.alloc_uninit::<u32>(LEN).unwrap(), 1)
                        .unwrap(),
                    theirs
                        .init_filled(theirs.alloc_uninit::<u32>(LEN).unwrap(), 2)
                        .unwrap(),
                );
                let (mut first, mut second) = (ours.adopt(first).unwrap(), theirs.adopt(second).unwrap());
                ours.copy_to_host(&one, &mut first).unwrap();
                theirs.copy_to_host(&two, &mut second).unwrap();
                if here_last {
                    drop(second);
                    drop(ours.release(first).unwrap());
                } else {
                    drop(first);
                    drop(theirs.release(second).unwrap());
                }
                let fresh = (
                    here.pinned_from(&[5_u32; 2 * LEN]).unwrap(),
                    there.pinned_from(&[6_u32; 2 * LEN]).unwrap(),
                );
                ours.synchronize().unwrap();
                theirs.synchronize().unwrap();
                assert_eq!(
                    (&fresh.0[..], &fresh.1[..]),
                    (&[5; 2 * LEN][..], &[6; 2 * LEN][..])
                );
            })
            .unwrap();
            there.stream::<Download<_>>().unwrap().synchronize().unwrap();
            drop(there.pinned::<u32>(2 * LEN).unwrap());
        })
        .unwrap();
    }
}

/// What a foreign call is said to use comes from anyone who asks for the driver: nonsense must not
/// panic with the checker locked.
#[test]
fn attack_tell_the_checker_of_memory_past_the_end() {
    Device::simulated(SimConfig::default(), |gpu| {
        let uses = [ForeignUse {
            address: DeviceAddress(u64::MAX - 1),
            bytes: 16,
            writes: false,
        }];
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut ran = false;
        let told = gpu
            .driver()
            .foreign("nonsense", stream.raw(), &uses, &mut || ran = true);
        assert!(told.is_ok() && ran);
        let _ = gpu
            .driver()
            .foreign("of no one's", RawStream(u64::MAX), &uses, &mut || ());
        drop(stream.alloc_zeroed::<u32>(LEN).unwrap());
        stream.synchronize().unwrap();
    })
    .unwrap();
}
