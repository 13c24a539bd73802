//! Handoffs in flight, and futures that wait for them.
#![forbid(unsafe_code)]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cuda_rt::simulator::{Order, SimConfig, Simulator};
use cuda_rt::{Device, Handoff, Idle, Live, PinnedBuffer, Stream};

cuda_rt::streams! {
    pub(super) Compute, priority = High;
    pub(super) Download;
}

pub(super) const LEN: usize = 64;

/// A time limit that only a lost wake-up exceeds.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs all futures; each is polled only when the task was woken.
pub(super) async fn join<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
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

pub(super) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A device whose handoffs can go into tasks and closures. A simulated one runs only requested
/// work, so that little happens by chance.
pub(super) fn process_wide() -> Device {
    Device::open_or_simulate_with(SimConfig::default().order(Order::Lazy)).unwrap()
}

pub(super) type Host<D> = PinnedBuffer<u32, Idle<D>>;

pub(super) struct Streams<D: Live> {
    pub(super) gpu: Device<D>,
    pub(super) compute: Stream<Compute<D>>,
    pub(super) download: Stream<Download<D>>,
}

impl<D: Live> Streams<D> {
    pub(super) fn new(gpu: &Device<D>) -> Self {
        Self {
            gpu: gpu.clone(),
            compute: gpu.stream().unwrap(),
            download: gpu.stream().unwrap(),
        }
    }

    /// `value` in flight to the host, over two streams.
    pub(super) fn downloading(&self, value: u32) -> Handoff<Host<D>> {
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
    pub(super) fn short(&self, value: u32) -> Handoff<Host<D>> {
        let buffer = self.compute.alloc_uninit::<u32>(LEN).unwrap();
        let buffer = self.compute.init_filled(buffer, value).unwrap();
        let mut host = self.compute.adopt(self.gpu.pinned(LEN).unwrap()).unwrap();
        self.compute.copy_to_host(&buffer, &mut host).unwrap();
        self.compute.release(host).unwrap()
    }
}

/// The objects that remain on a device: events, allocations, registrations.
pub(super) fn left(simulator: &Simulator) -> [usize; 3] {
    let counters = simulator.counters();
    [
        counters.events_live,
        counters.allocations_live,
        counters.registrations_live,
    ]
}

/// The completion thread may still hold events for a moment.
#[track_caller]
pub(super) fn nothing_is_left(simulator: &Simulator) {
    let start = Instant::now();
    while left(simulator) != [0; 3] {
        assert!(start.elapsed() < PATIENCE, "left {:?}", left(simulator));
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn configurations() -> impl Iterator<Item = SimConfig> {
    let random = (0..6).map(|seed| SimConfig::default().seed(seed));
    random.chain([SimConfig::default().seed(9).order(Order::Lazy)])
}
