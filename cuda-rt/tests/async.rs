//! Futures and closures of handoffs: under a bare executor and under tokio, cancelled and leaked at
//! every point, and with calls that fail.
#![forbid(unsafe_code)]

mod devices;

use std::collections::BTreeSet;
use std::future::{Future, IntoFuture, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig, Simulator};
use cuda_rt::{Device, Handoff, HandoffFuture, Idle, Live, PinnedBuffer, Result, Stream};

use devices::for_each_device;

cuda_rt::streams! {
    Upload;
    Compute, priority = High;
    Download;
}

const LEN: usize = 64;
/// Long enough for anything but a wake-up that never comes.
const PATIENCE: Duration = Duration::from_secs(60);

static_assertions::assert_impl_all!(HandoffFuture<PinnedBuffer<u32>>: Send, Unpin);

/// The executor of a thread: it parks until it is woken.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[track_caller]
fn block_on<T>(future: impl IntoFuture<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future.into_future());
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(PATIENCE);
        assert!(start.elapsed() < PATIENCE, "never woken");
    }
}

/// All of them, each polled only when something woke the task.
async fn join<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let mut futures: Vec<Option<F>> = futures.into_iter().map(Some).collect();
    poll_fn(|cx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if let Some(pending) = future
                && let Poll::Ready(value) = Pin::new(pending).poll(cx)
            {
                (*future, *output) = (None, Some(value));
            }
        }
        if futures.iter().all(Option::is_none) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A device whose handoffs can go into tasks and closures. If simulated it runs only what is asked
/// for, so that little is done by chance.
fn process_wide() -> Device {
    Device::open_or_simulate_with(SimConfig::default().order(Order::Lazy)).unwrap()
}

type Host<D> = PinnedBuffer<u32, Idle<D>>;

struct Streams<D: Live> {
    gpu: Device<D>,
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
}

impl<D: Live> Streams<D> {
    fn new(gpu: &Device<D>) -> Self {
        Self {
            gpu: gpu.clone(),
            compute: gpu.stream().unwrap(),
            download: gpu.stream().unwrap(),
        }
    }

    /// `value` in flight to the host, over two streams.
    fn downloading(&self, value: u32) -> Handoff<Host<D>> {
        let mut buffer = self.compute.alloc_zeroed::<u32>(LEN).unwrap();
        self.compute.fill(&mut buffer, value).unwrap();
        let buffer = self
            .download
            .acquire(self.compute.release(buffer).unwrap())
            .unwrap();
        let mut host = self.download.adopt(self.gpu.pinned(LEN).unwrap()).unwrap();
        self.download.copy_to_host(&buffer, &mut host).unwrap();
        self.download.release(host).unwrap()
    }

    /// `value` in flight to the host, on one stream.
    fn short(&self, value: u32) -> Handoff<Host<D>> {
        let buffer = self.compute.alloc_uninit::<u32>(LEN).unwrap();
        let buffer = self.compute.init_filled(buffer, value).unwrap();
        let mut host = self.compute.adopt(self.gpu.pinned(LEN).unwrap()).unwrap();
        self.compute.copy_to_host(&buffer, &mut host).unwrap();
        self.compute.release(host).unwrap()
    }
}

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
        // The last comes to the completion thread first.
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
        // Of several events: those of both readers.
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
                // Given the same memory if it was freed early.
                let host = streams.downloading(1000 + value).await.unwrap();
                assert_eq!(*host, [1000 + value; LEN]);
            }
        });
    });
}

/// What is left of a device: events, allocations, registrations.
fn left(simulator: &Simulator) -> [usize; 3] {
    let counters = simulator.counters();
    [
        counters.events_live,
        counters.allocations_live,
        counters.registrations_live,
    ]
}

/// The completion thread may still hold events for a moment.
#[track_caller]
fn nothing_is_left(simulator: &Simulator) {
    let start = Instant::now();
    while left(simulator) != [0; 3] {
        assert!(start.elapsed() < PATIENCE, "left {:?}", left(simulator));
        thread::sleep(Duration::from_millis(1));
    }
}

fn configurations() -> impl Iterator<Item = SimConfig> {
    let random = (0..6).map(|seed| SimConfig::default().seed(seed));
    random.chain([SimConfig::default().seed(9).order(Order::Lazy)])
}

/// How a future ends before it is ready.
#[derive(Clone, Copy, Debug)]
enum End {
    Drop,
    Leak,
    /// The handoff is taken back and waited for.
    TakeBack,
    /// And dropped.
    TakeBackAndDrop,
    /// And awaited again.
    Await,
}

/// Polls until the `polls`th, and then ends it.
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
fn h27_a_future_cut_short_at_any_point_costs_nothing_but_what_was_leaked() {
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
                        // Given the same memory if it was freed early.
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
        // So much work before it that it is pending for a while.
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
fn a_waker_that_panics_or_drops_other_futures_stops_no_other_wake_up() {
    struct Panics(Arc<AtomicUsize>);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("a waker of the test panics");
        }
    }
    /// Drops what it holds when it is woken.
    struct Drops<T>(Mutex<Option<T>>);
    impl<T: Send> Wake for Drops<T> {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    // More work at a time than a poll sees done, so that most are pending at the first.
    let some = |count| {
        (0..count)
            .map(|value| streams.downloading(value).into_future())
            .collect::<Vec<_>>()
    };
    let (mut victims, mut futures) = (some(300), some(300));
    let panics = Arc::new(AtomicUsize::new(0));
    let mut to_panic = 0;
    for (future, number) in futures.iter_mut().zip(0..) {
        let waker = match number % 2 {
            0 => Waker::from(Arc::new(Panics(Arc::clone(&panics)))),
            _ => Waker::from(Arc::new(Drops(Mutex::new(Some(victims.pop()))))),
        };
        let pending = Pin::new(future)
            .poll(&mut Context::from_waker(&waker))
            .is_pending();
        to_panic += usize::from(pending && number % 2 == 0);
    }
    // A GPU may be done with all of them by then.
    assert!(to_panic > 1 || !gpu.is_simulated(), "nothing was pending");
    for value in 0..20 {
        let after = block_on(join(some(20)));
        assert_eq!(
            *after.into_iter().nth(value as usize).unwrap().unwrap(),
            [value; LEN]
        );
    }
    let woken = panics.load(Ordering::SeqCst);
    assert!(
        woken <= to_panic && (woken > 0 || to_panic == 0),
        "{woken} of {to_panic} woken"
    );
    for (future, value) in futures.into_iter().zip(0..) {
        if let Some(handoff) = future.into_handoff() {
            assert_eq!(*block_on(handoff).unwrap(), [value; LEN]);
        }
    }
}

#[test]
fn a_query_that_fails_once_ends_that_future_with_the_error_and_frees_behind_the_event() {
    for config in configurations() {
        for nth in 1..40 {
            let simulator = Device::simulated(config.clone(), |gpu| {
                let simulator = gpu.simulator().unwrap().clone();
                let streams = Streams::new(&gpu);
                // Reused blocks are asked for as well: these are not.
                let blocks: Vec<_> = (0..9).map(|_| gpu.pinned::<u32>(LEN).unwrap()).collect();
                drop(blocks);
                let futures: Vec<_> = (0..8)
                    .map(|value| streams.downloading(value).into_future())
                    .collect();
                simulator.fail_nth(Call::QueryEvent, nth, ErrorCode::OUT_OF_MEMORY);
                let hosts = block_on(join(futures));
                let mut failed = 0;
                for (host, value) in hosts.into_iter().zip(0..) {
                    match host {
                        Ok(host) => assert_eq!(*host, [value; LEN]),
                        Err(error) => {
                            failed += 1;
                            assert!(error.to_string().contains("injected"), "{error}");
                            assert!(error.to_string().starts_with("Handoff::await"), "{error}");
                        }
                    }
                }
                assert!(failed <= 1);
                simulator.clear_faults();
                assert_eq!(*block_on(streams.downloading(50)).unwrap(), [50; LEN]);
                simulator
            })
            .unwrap();
            nothing_is_left(&simulator);
        }
    }
}

#[test]
fn all_are_woken_with_the_error_once_the_device_is_lost() {
    for config in configurations() {
        for nth in [1, 2, 30, 333] {
            Device::simulated(config.clone(), |gpu| {
                let simulator = gpu.simulator().unwrap();
                let streams = Streams::new(&gpu);
                let futures: Vec<_> = (0..1000)
                    .map(|value| streams.downloading(value).into_future())
                    .collect();
                simulator.fail_nth(Call::QueryEvent, nth, ErrorCode::LAUNCH_FAILED);
                let hosts = block_on(join(futures));
                let lost = hosts.iter().filter(|host| host.is_err()).count();
                assert!(lost > 0, "{config:?}");
                for (host, value) in hosts.into_iter().zip(0..) {
                    match host {
                        Ok(host) => assert_eq!(*host, [value; LEN]),
                        Err(error) => assert!(error.is_sticky(), "{error}"),
                    }
                }
            })
            .unwrap();
        }
    }
}

#[test]
fn closures_run_off_the_calling_thread_and_may_call_cuda() {
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let (sender, receiver) = mpsc::channel::<(ThreadId, u32)>();
    for value in 0..200 {
        let (sender, gpu) = (sender.clone(), gpu.clone());
        streams
            .downloading(value)
            .on_done(move |host| {
                let host = host.unwrap();
                // H44: in a CUDA callback this would be an error or a deadlock.
                let again = Streams::new(&gpu).downloading(host[0] + 1000);
                let again = if value % 2 == 0 {
                    again.synchronize()
                } else {
                    block_on(again)
                };
                sender.send((thread::current().id(), again.unwrap()[0])).unwrap();
            })
            .unwrap();
    }
    drop(sender);
    let mut seen = BTreeSet::new();
    let mut threads = Vec::new();
    while let Ok((thread, value)) = receiver.recv_timeout(PATIENCE) {
        threads.push(thread);
        assert!(seen.insert(value));
    }
    assert_eq!(seen, (1000..1200).collect());
    threads.dedup();
    assert_eq!(threads.len(), 1, "one after another, on one thread");
    assert_ne!(threads[0], thread::current().id());
}

#[test]
fn a_closure_that_panics_stops_no_other() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            assert!(thread::panicking(), "a payload of the test panics");
        }
    }
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let (sender, receiver) = mpsc::channel();
    for value in 0..10 {
        let sender = sender.clone();
        let run = move |host: Result<Host<_>>| {
            if value % 2 == 0 {
                std::panic::panic_any(PanicsOnDrop);
            }
            sender.send(host.unwrap()[0]).unwrap();
        };
        streams.downloading(value).on_done(run).unwrap();
    }
    drop(sender);
    let mut seen: Vec<_> = std::iter::from_fn(|| receiver.recv_timeout(PATIENCE).ok()).collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 3, 5, 7, 9]);
}

#[test]
fn the_closure_of_what_is_idle_runs_at_once() {
    let gpu = process_wide();
    let thread = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&thread);
    Handoff::ready(gpu.pinned_from(&[1u32, 2]).unwrap())
        .on_done(move |host| {
            assert_eq!(*host.unwrap(), [1, 2]);
            *seen.lock().unwrap() = Some(thread::current().id());
        })
        .unwrap();
    assert_eq!(*thread.lock().unwrap(), Some(thread::current().id()));
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
