//! Futures of handoffs: under a minimal executor and under tokio, cancelled and leaked at every
//! point.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, Handoff, HandoffFuture, Live, PinnedBuffer};

use super::in_flight::{
    Host, LEN, PATIENCE, Streams, configurations, join, nothing_is_left, poll_once, process_wide,
};
use crate::block_on::block_on;
use crate::devices::for_each_device;

static_assertions::assert_impl_all!(HandoffFuture<PinnedBuffer<u32>>: Send, Unpin);

#[test]
fn an_awaited_download_is_there() {
    for_each_device(|gpu| {
        let streams = Streams::new(gpu);
        let host = block_on(async { streams.downloading(7).await }).unwrap();
        assert_eq!(*host, [7; LEN]);
        let ready = block_on(Handoff::ready(host)).unwrap();
        assert_eq!(*ready, [7; LEN]);
    });
}

#[test]
fn many_in_flight_in_one_task_all_arrive_whatever_their_order() {
    for_each_device(|gpu| {
        let streams = Streams::new(gpu);
        let mut futures: Vec<_> = (0..300)
            .map(|value| {
                if value % 3 == 0 {
                    streams.short(value).into_future()
                } else {
                    streams.downloading(value).into_future()
                }
            })
            .collect();
        // The last future reaches the completion thread first.
        futures.reverse();
        let hosts = block_on(join(futures));
        for (host, value) in hosts.into_iter().zip((0..300).rev()) {
            assert_eq!(*host.unwrap(), [value; LEN]);
        }
    });
}

#[test]
fn bundles_split_and_shared_can_be_awaited() {
    for_each_device(|gpu| {
        let streams = Streams::new(gpu);
        let (compute, download) = (&streams.compute, &streams.download);
        let shared = compute.share(compute.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
        let mut host = download.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        {
            let lease = download.lease(&shared).unwrap();
            download.copy_to_host(&lease.view(), &mut host).unwrap();
            drop(compute.lease(&shared).unwrap());
        }
        let (host, marks) = download
            .release((host, Vec::<cuda_rt::DeviceBuffer<u32, _>>::new()))
            .unwrap()
            .split();
        // A future of several events: the events of both readers.
        let idle = block_on(shared.reclaim().unwrap()).unwrap();
        assert_eq!(idle.len(), LEN);
        assert_eq!(*block_on(host).unwrap(), [0; LEN]);
        assert!(block_on(marks).unwrap().is_empty());
    });
}

#[test]
fn thousands_in_flight_under_tokio_all_arrive() {
    const TASKS: u32 = 4000;
    let gpu = process_wide();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let streams = Streams::new(&gpu);
        let tasks: Vec<_> = (0..TASKS)
            .map(|value| {
                let handoff = streams.downloading(value);
                tokio::spawn(async move { handoff.await.map(|host| (host[0], host[LEN - 1])) })
            })
            .collect();
        for (task, value) in tasks.into_iter().zip(0..) {
            let ends = tokio::time::timeout(PATIENCE, task)
                .await
                .expect("woken")
                .unwrap();
            assert_eq!(ends.unwrap(), (value, value));
        }
    });
}

#[test]
fn a_tokio_timeout_cancels_and_the_next_user_of_the_memory_is_not_disturbed() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    for_each_device(|gpu| {
        runtime.block_on(async {
            let streams = Streams::new(gpu);
            for value in 0..20 {
                let cut = tokio::time::timeout(Duration::ZERO, streams.downloading(value)).await;
                if let Ok(host) = cut {
                    assert_eq!(*host.unwrap(), [value; LEN]);
                }
                // If memory was freed early, this buffer gets the same memory.
                let host = streams.downloading(1000 + value).await.unwrap();
                assert_eq!(*host, [1000 + value; LEN]);
            }
        });
    });
}

/// The way in which a future ends before it is ready.
#[derive(Clone, Copy, Debug)]
enum End {
    Drop,
    Leak,
    /// The handoff is taken back, and the host waits for it.
    TakeBack,
    /// The handoff is taken back and dropped.
    TakeBackAndDrop,
    /// The handoff is taken back and awaited again.
    Await,
}

/// Polls `polls` times, and then ends the future.
fn cut_short<D: Live>(handoff: Handoff<Host<D>>, value: u32, polls: usize, end: End) {
    let mut future = handoff.into_future();
    for _ in 0..polls {
        if let Poll::Ready(host) = poll_once(&mut future) {
            assert_eq!(*host.unwrap(), [value; LEN]);
            assert!(future.into_handoff().is_none());
            return;
        }
    }
    match end {
        End::Drop => drop(future),
        End::Leak => std::mem::forget(future),
        End::TakeBack => {
            let host = future.into_handoff().unwrap().synchronize().unwrap();
            assert_eq!(*host, [value; LEN]);
        }
        End::TakeBackAndDrop => drop(future.into_handoff()),
        End::Await => assert_eq!(*block_on(future.into_handoff().unwrap()).unwrap(), [value; LEN]),
    }
}

#[test]
fn h27_a_future_cut_short_at_any_point_leaks_only_leaked_values() {
    const ENDS: [End; 5] = [
        End::Drop,
        End::Leak,
        End::TakeBack,
        End::TakeBackAndDrop,
        End::Await,
    ];
    for config in configurations() {
        for end in ENDS {
            for polls in 0..12 {
                let simulator = Device::simulated(config.clone(), |gpu| {
                    let streams = Streams::new(&gpu);
                    let mut witnesses = Vec::new();
                    for value in 0..4 {
                        cut_short(streams.downloading(value), value, polls, end);
                        // If memory was freed early, this buffer gets the same memory.
                        witnesses.push((streams.downloading(100 + value), 100 + value));
                    }
                    for (witness, value) in witnesses {
                        assert_eq!(
                            *block_on(witness).unwrap(),
                            [value; LEN],
                            "{config:?} {end:?} {polls}"
                        );
                    }
                    gpu.simulator().unwrap().clone()
                })
                .unwrap();
                if !matches!(end, End::Leak) {
                    nothing_is_left(&simulator);
                }
            }
        }
    }
}

#[test]
fn a_future_moves_between_tasks_and_wakes_the_last() {
    struct Count(AtomicUsize, Thread);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            self.1.unpark();
        }
    }
    let counts: [_; 3] = std::array::from_fn(|_| Arc::new(Count(AtomicUsize::new(0), thread::current())));
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let streams = Streams::new(&gpu);
        // So much work comes before it that it is pending for a while.
        let ahead: Vec<_> = (0..2000).map(|value| streams.short(value)).collect();
        let mut future = streams.short(5).into_future();
        let mut poll = |count: &Arc<Count>| {
            let waker = Waker::from(Arc::clone(count));
            Pin::new(&mut future).poll(&mut Context::from_waker(&waker))
        };
        for count in &counts {
            assert!(poll(count).is_pending());
        }
        while counts[2].0.load(Ordering::SeqCst) == 0 {
            thread::park_timeout(Duration::from_millis(1));
        }
        let Poll::Ready(host) = poll(&counts[0]) else {
            panic!("woken for nothing")
        };
        assert_eq!(*host.unwrap(), [5; LEN]);
        assert_eq!(
            counts.each_ref().map(|count| count.0.load(Ordering::SeqCst)),
            [0, 0, 1]
        );
        drop(ahead);
    })
    .unwrap();
}

#[test]
fn a_future_polled_after_it_was_ready_panics() {
    Device::simulated(SimConfig::default().order(Order::Eager), |gpu| {
        let mut future = Streams::new(&gpu).downloading(1).into_future();
        assert!(poll_once(&mut future).is_ready());
        catch_unwind(AssertUnwindSafe(|| poll_once(&mut future).is_ready())).unwrap_err();
    })
    .unwrap();
}
