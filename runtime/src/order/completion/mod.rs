//! Who waits for pending handoffs on behalf of tasks: one thread for each device that has any.
//!
//! Design choices:
//! - Events are asked (`cuEventQuery`); no host function is enqueued. None runs after a sticky
//!   error (docs/soundness.md, obligation 11), and one that is enqueued delays the work behind it.
//!   A query gives the error, so that a future ends in any case.
//! - A stream runs in order, so that of all that waits for one stream the oldest is asked first,
//!   and while it is pending only a few others are: thousands in flight cost a round about as much
//!   as one for each stream.
//! - The thread asks without pause while something arrived or was done a moment ago; after that it
//!   sleeps a 64th of the time since, so that it is late by a small part of what it waits for, and
//!   long waits cost next to nothing.
//! - On a simulated device each question runs an operation, so that the thread does there what the
//!   GPU would: it asks without pause while anything is pending, and lets others have the processor
//!   once in a [`TURN`], not after each operation.
//! - Threads stay behind when a process forks. A child that waits for what its parent's thread was
//!   to wake gets an error.
//! - No lock is held while a waker or a closure is cloned, called, sent or dropped, and one that
//!   panics there is contained. Closures run on a thread of their own (`closures`): they may block.
//!
//! The thread starts with the first wait and ends with the device. A future that was dropped or
//! leaked has no part in the safety of its bundle: the bundle is in the handoff, and the thread
//! holds the events alone (H27).

mod closures;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::order::event_pool::EventPool;
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamId;
use crate::order::unless::unwound;
use closures::{Closures, Job};
use cuda_rt_driver::door::message as panic_message;
use cuda_rt_driver::{Backend, DriverResult};

/// Time after an arrival or a completion in which the thread asks without pause.
const SPIN: Duration = Duration::from_micros(50);
/// Time for which the thread asks a simulated device before it lets others have the processor.
/// Where all processors are busy it gets it back only some milliseconds later, whatever it has done
/// until then.
const TURN: Duration = Duration::from_millis(1);
/// It then sleeps this part of the time that it has been waiting.
const SLEEP_PART: u32 = 64;
/// But never longer than this.
const LONGEST_SLEEP: Duration = Duration::from_micros(250);
/// Of what waits behind the oldest of a stream, how many are asked in a round: they may have come
/// in another order than their events were recorded in, or their futures may be gone.
const PROBES: usize = 16;

/// The way to one device's threads; they run while there is something to wait for, or the device is
/// there.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    /// `None` before the first wait and after the device is gone.
    arrivals: Mutex<Option<Started<Watcher>>>,
    closures: Closures,
}

impl Completion {
    /// Lets the threads end once nothing waits any more.
    pub(crate) fn close(&self) {
        let kept = self.lock().take();
        drop(kept);
        self.closures.close();
    }

    fn submit(&self, pool: &Arc<EventPool>, watcher: Watcher) -> io::Result<()> {
        let sender = self.sender(pool)?;
        // The thread receives until the last sender is gone. The lock is free: what cannot be sent
        // is dropped, with code of others.
        let sent = sender.send(watcher);
        sent.map_err(|_| io::Error::other("the completion thread has ended"))
    }

    /// A sender to the thread, which is started if there is none.
    fn sender(&self, pool: &Arc<EventPool>) -> io::Result<Sender<Watcher>> {
        let mut arrivals = self.lock();
        if let Some(started) = &*arrivals {
            return started.sender();
        }
        let started = Started::new(start(Arc::clone(pool))?);
        let sender = started.sender();
        // A device that is gone keeps no thread beyond what waits.
        if !pool.is_closed() {
            *arrivals = Some(started);
        }
        sender
    }

    fn lock(&self) -> MutexGuard<'_, Option<Started<Watcher>>> {
        // Whole after any panic: it is assigned or not.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sender to a thread, and the process that the thread is of.
struct Started<T> {
    sender: Sender<T>,
    process: u32,
}

impl<T> fmt::Debug for Started<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

impl<T> Started<T> {
    fn new(sender: Sender<T>) -> Self {
        let process = std::process::id();
        Self { sender, process }
    }

    fn sender(&self) -> io::Result<Sender<T>> {
        check_process(self.process)?;
        Ok(self.sender.clone())
    }
}

/// An error in a process that was forked from the one of this number.
fn check_process(process: u32) -> io::Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "this process was forked, and the device's threads stayed in its parent, process {process}; open the device after `fork`"
    )))
}

fn start(pool: Arc<EventPool>) -> io::Result<Sender<Watcher>> {
    let (sender, receiver) = channel();
    thread::Builder::new()
        .name("cuda-rt-events".into())
        .spawn(move || {
            let pauses = pool.driver().properties().backend != Backend::Simulated;
            Waiting::default().run(&receiver, pauses);
            // What came back while the pool was being closed.
            if pool.is_closed() {
                pool.drain();
            }
        })?;
    Ok(sender)
}

/// What a future and the thread share of one wait.
#[derive(Debug)]
pub(crate) struct Watch {
    state: Mutex<State>,
    /// Whose thread it is that ends it.
    process: u32,
}

#[derive(Debug)]
enum State {
    Pending(Waker),
    Over(DriverResult<()>),
}

impl Watch {
    /// Wakes `waker` once `fence` is over, or cannot be asked any more.
    pub(crate) fn start(fence: &mut Fence, waker: &Waker) -> io::Result<Arc<Self>> {
        let watch = Arc::new(Self::new(waker.clone()));
        fence.watch(Done::Wake(Arc::clone(&watch)))?;
        Ok(watch)
    }

    fn new(waker: Waker) -> Self {
        Self {
            state: Mutex::new(State::Pending(waker)),
            process: std::process::id(),
        }
    }

    /// The outcome, or `waker` is the one to be woken from now on. An error where no thread will
    /// wake it.
    pub(crate) fn poll(&self, waker: &Waker) -> io::Result<Poll<DriverResult<()>>> {
        let poll = self.poll_state(waker);
        if poll.is_pending() {
            check_process(self.process)?;
        }
        Ok(poll)
    }

    fn poll_state(&self, waker: &Waker) -> Poll<DriverResult<()>> {
        match &*self.lock() {
            State::Over(outcome) => return Poll::Ready(outcome.clone()),
            State::Pending(old) if old.will_wake(waker) => return Poll::Pending,
            State::Pending(_) => {}
        }
        // A waker's clone and drop are the executor's code: not under the lock, which the thread of
        // all wake-ups takes.
        let mut waker = waker.clone();
        match &mut *self.lock() {
            State::Over(outcome) => return Poll::Ready(outcome.clone()),
            State::Pending(old) => std::mem::swap(old, &mut waker),
        }
        Poll::Pending
    }

    fn end(&self, outcome: DriverResult<()>) {
        let before = std::mem::replace(&mut *self.lock(), State::Over(outcome));
        if let State::Pending(waker) = before {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after any panic, of a waker's `clone` too: the state is replaced in one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be done when a fence is over.
pub(crate) enum Done {
    Wake(Arc<Watch>),
    Run(Sender<Job>, Box<dyn FnOnce(DriverResult<()>) + Send>),
}

impl Done {
    /// Runs `body` on the device's closure thread.
    pub(crate) fn run(
        pool: &EventPool,
        body: impl FnOnce(DriverResult<()>) + Send + 'static,
    ) -> io::Result<Self> {
        let jobs = pool.completion().closures.sender(pool)?;
        Ok(Self::Run(jobs, Box::new(body)))
    }
}

impl Done {
    /// What it waits for is over already.
    pub(crate) fn now(self) {
        match self {
            Self::Wake(watch) => watch.end(Ok(())),
            Self::Run(jobs, body) => drop(jobs.send(Box::new(move || body(Ok(()))))),
        }
    }
}

impl Fence {
    /// Does `done` once this is over or cannot be asked any more. Of a fence with no events nothing
    /// is done: it is over, or never will be, and [`query`](Self::query) says which.
    pub(crate) fn watch(&mut self, done: Done) -> io::Result<()> {
        let fence = self.share();
        let Some((pool, origin)) = fence.watched_by() else {
            return Ok(());
        };
        let pool = Arc::clone(pool);
        let watcher = Watcher { fence, origin, done };
        pool.completion().submit(&pool, watcher)
    }
}

struct Watcher {
    fence: Fence,
    /// The stream that recorded the fence's event, if it is one.
    origin: Option<StreamId>,
    done: Done,
}

/// What asking about a wait gave.
enum Answer {
    /// No one waits any more.
    Cancelled,
    Over(DriverResult<()>),
}

impl Watcher {
    /// `None` while it is pending.
    fn ask(&self) -> Option<Answer> {
        if let Done::Wake(watch) = &self.done
            && Arc::strong_count(watch) == 1
        {
            return Some(Answer::Cancelled);
        }
        // A question that unwinds ends this wait, and no other.
        let asked = catch_unwind(AssertUnwindSafe(|| self.fence.query())).unwrap_or_else(|payload| {
            // Its drop may panic again.
            std::mem::forget(payload);
            Err(unwound("cuEventQuery"))
        });
        match asked {
            Ok(false) => None,
            Ok(true) => Some(Answer::Over(Ok(()))),
            Err(error) => Some(Answer::Over(Err(error))),
        }
    }

    fn finish(self, answer: Answer) {
        // First, so that the events are the other holder's alone when it is woken.
        contain(|| drop(self.fence));
        let Answer::Over(outcome) = answer else {
            // With the waker, whose drop is the executor's code.
            return contain(|| drop(self.done));
        };
        match self.done {
            Done::Wake(watch) => contain(|| watch.end(outcome)),
            // Received until the last sender is gone, and this is one. Else the handoff in it is
            // dropped, behind its fence.
            Done::Run(jobs, body) => contain(|| drop(jobs.send(Box::new(move || body(outcome))))),
        }
    }
}

/// Runs code of others, or a driver's, on a thread of ours: the panic hook has reported what it
/// panics with.
fn contain(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        // Drops no code of others, which may panic again.
        panic_message(payload);
    }
}

/// What waits for the events of one stream, or, without an origin, for those of several.
struct Queue {
    origin: Option<StreamId>,
    watchers: VecDeque<Watcher>,
    /// The last one probed.
    probed: usize,
}

impl Queue {
    /// Asks once. Returns whether something was over.
    fn round(&mut self) -> bool {
        let before = self.watchers.len();
        while let Some(answer) = self.watchers.front().and_then(Watcher::ask) {
            self.finish(0, answer);
        }
        for _ in 0..PROBES.min(self.watchers.len().saturating_sub(1)) {
            self.probed = if self.probed + 1 < self.watchers.len() {
                self.probed + 1
            } else {
                1
            };
            if let Some(answer) = self.watchers.get(self.probed).and_then(Watcher::ask) {
                self.finish(self.probed, answer);
                self.probed -= 1;
            }
        }
        self.watchers.len() < before
    }

    fn finish(&mut self, index: usize, answer: Answer) {
        if let Some(watcher) = self.watchers.remove(index) {
            watcher.finish(answer);
        }
    }
}

/// All that waits on one device.
#[derive(Default)]
struct Waiting(Vec<Queue>);

impl Waiting {
    /// Until no one can wait any more. With `pauses` it sleeps between rounds; on a simulated
    /// device it does not, for there the questions are what makes work run.
    fn run(mut self, arrivals: &Receiver<Watcher>, pauses: bool) {
        let mut last = Instant::now();
        let mut turn = last;
        loop {
            if self.0.is_empty() {
                let Ok(watcher) = arrivals.recv() else { return };
                self.add(watcher);
                last = Instant::now();
            }
            while let Ok(watcher) = arrivals.try_recv() {
                self.add(watcher);
                last = Instant::now();
            }
            if self.round() {
                last = Instant::now();
                continue;
            }
            let waited = last.elapsed();
            if !pauses {
                if turn.elapsed() >= TURN {
                    thread::yield_now();
                    turn = Instant::now();
                }
            } else if waited < SPIN {
                thread::yield_now();
            } else if let Some(watcher) = sleep(arrivals, (waited / SLEEP_PART).min(LONGEST_SLEEP)) {
                self.add(watcher);
                last = Instant::now();
            }
        }
    }

    fn add(&mut self, watcher: Watcher) {
        let origin = watcher.origin;
        match self.0.iter_mut().find(|queue| queue.origin == origin) {
            Some(queue) => queue.watchers.push_back(watcher),
            None => self.0.push(Queue {
                origin,
                watchers: VecDeque::from([watcher]),
                probed: 0,
            }),
        }
    }

    fn round(&mut self) -> bool {
        let mut progress = false;
        for queue in &mut self.0 {
            progress |= queue.round();
        }
        self.0.retain(|queue| !queue.watchers.is_empty());
        progress
    }
}

/// Until something arrives, but no longer than `time`.
fn sleep(arrivals: &Receiver<Watcher>, time: Duration) -> Option<Watcher> {
    match arrivals.recv_timeout(time) {
        Ok(watcher) => Some(watcher),
        Err(RecvTimeoutError::Timeout) => None,
        // The device is gone; what waits still does.
        Err(RecvTimeoutError::Disconnected) => {
            thread::sleep(time);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::stream_ref::StreamRef;
    use cuda_rt_simulator::{Order, SimConfig, SimDriver};

    /// A fence behind `copies` copies on a stream of its own, of a device that runs one operation
    /// for each question about it.
    fn fence(pool: &Arc<EventPool>, copies: usize) -> Fence {
        let driver = pool.driver();
        let raw = driver.create_stream(0).unwrap();
        let at = StreamRef {
            raw,
            id: StreamId::new(),
        };
        if copies > 0 {
            // SAFETY: the stream is live.
            let memory = unsafe { driver.alloc(8, raw) }.unwrap();
            for _ in 0..copies {
                // SAFETY: 8 bytes of this stream's own.
                unsafe { driver.fill(memory, &[1], 8, raw) }.unwrap();
            }
        }
        pool.record(at, false).unwrap().into()
    }

    fn watcher(fence: Fence) -> (Watcher, Arc<Watch>) {
        let watch = Arc::new(Watch::new(Waker::noop().clone()));
        let done = Done::Wake(Arc::clone(&watch));
        let origin = None;
        (Watcher { fence, origin, done }, watch)
    }

    /// A closure of the user's, which asks when it is dropped whether it could wait for something
    /// now.
    struct AsksWhenDropped(Arc<EventPool>, Sender<bool>);

    impl Drop for AsksWhenDropped {
        fn drop(&mut self) {
            let free = self.0.completion().arrivals.try_lock().is_ok();
            self.1.send(free).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_sent_is_dropped_with_no_lock_held() {
        let pool = EventPool::new(SimDriver::new(SimConfig::default().order(Order::Lazy)));
        let (ended, _) = channel();
        *pool.completion().lock() = Some(Started::new(ended));
        let (sender, asked) = channel();
        let asks = AsksWhenDropped(Arc::clone(&pool), sender);
        let (jobs, _received) = channel();
        let done = Done::Run(jobs, Box::new(move |_| drop(asks)));
        fence(&pool, 1).watch(done).unwrap_err();
        assert_eq!(asked.recv(), Ok(true));
        pool.close();
    }

    #[test]
    fn what_is_done_behind_one_that_is_pending_is_found_and_so_is_what_no_one_waits_for() {
        let config = SimConfig::default().order(Order::Lazy).most_pending(usize::MAX);
        let pool = EventPool::new(SimDriver::new(config));
        let mut waiting = Waiting::default();
        let (slow, slow_watch) = watcher(fence(&pool, 10_000));
        waiting.add(slow);
        let mut watches = Vec::new();
        for number in 0..200 {
            // Every other one is slow too, and cancelled.
            let cancelled = number % 2 == 1;
            let (behind, watch) = watcher(fence(&pool, if cancelled { 1000 } else { 0 }));
            waiting.add(behind);
            if !cancelled {
                watches.push(watch);
            }
        }
        // Each probes so many of those behind the first, and none is asked twice before all were.
        for _ in 0..200usize.div_ceil(PROBES) {
            waiting.round();
        }
        for watch in watches {
            assert_eq!(watch.poll(Waker::noop()).unwrap(), Poll::Ready(Ok(())));
        }
        assert!(slow_watch.poll(Waker::noop()).unwrap().is_pending());
        assert_eq!(waiting.0[0].watchers.len(), 1);
        pool.close();
    }
}
