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
//! - The threads ask a [`Question`], and know nothing of events: how they wait is tested without a
//!   device.
//!
//! The thread starts with the first wait and ends with the device. A future that was dropped or
//! leaked has no part in the safety of its bundle: the bundle is in the handoff, and the thread
//! holds the events alone (H27).

mod closures;
mod thread;

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use self::closures::{Closures, Job};
use self::thread::{Thread, check_process, contain};
use crate::order::stream_ref::StreamId;
use crate::order::unless::unwound;
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

/// What can be asked whether it is over: an event, or a fence of several.
pub(crate) trait Question: Send + Sync {
    /// Whether it is over. An error ends the wait.
    fn ask(&self) -> DriverResult<bool>;
}

/// The way to one device's threads; they run while there is something to wait for, or the device is
/// there.
#[derive(Debug)]
pub(crate) struct Completion {
    /// To the thread that asks.
    arrivals: Thread<Watcher>,
    closures: Closures,
    /// Whether that thread sleeps between rounds.
    pauses: bool,
}

impl Completion {
    /// For a device that runs its work by itself, or for a simulated one.
    pub(crate) fn of(backend: Backend) -> Self {
        Self {
            arrivals: Thread::default(),
            closures: Closures::default(),
            pauses: backend != Backend::Simulated,
        }
    }

    /// Lets the threads end once nothing waits any more.
    pub(crate) fn close(&self) {
        self.arrivals.close();
        self.closures.close();
    }

    /// Does `done` once `question` is over, or cannot be asked any more. Questions of one `origin`
    /// are over in the order in which they come. `at_end` is run by the thread that this starts, if
    /// it starts one, when it ends.
    pub(crate) fn watch(
        &self,
        question: Arc<dyn Question>,
        origin: Option<StreamId>,
        done: Done,
        at_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let pauses = self.pauses;
        let sender = self.arrivals.sender(|| start(pauses, at_end))?;
        // The thread receives until the last sender is gone. The lock is free: what cannot be sent
        // is dropped, with code of others.
        let sent = sender.send(Watcher {
            question,
            origin,
            done,
        });
        sent.map_err(|_| io::Error::other("the completion thread has ended"))
    }
}

fn start(pauses: bool, at_end: impl FnOnce() + Send + 'static) -> io::Result<Sender<Watcher>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("cuda-rt-events".into())
        .spawn(move || {
            Waiting::default().run(&receiver, pauses);
            at_end();
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
    /// That of a future whose task `waker` wakes; [`Done::Wake`] ends it.
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Pending(waker)),
            process: std::process::id(),
        })
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

/// What is to be done when a wait is over.
pub(crate) enum Done {
    Wake(Arc<Watch>),
    Run(Sender<Job>, Box<dyn FnOnce(DriverResult<()>) + Send>),
}

impl Done {
    /// Runs `body` on the device's closure thread.
    pub(crate) fn run(
        completion: &Completion,
        body: impl FnOnce(DriverResult<()>) + Send + 'static,
    ) -> io::Result<Self> {
        let jobs = completion.closures.sender()?;
        Ok(Self::Run(jobs, Box::new(body)))
    }

    /// What it waits for is over already.
    pub(crate) fn now(self) {
        match self {
            Self::Wake(watch) => watch.end(Ok(())),
            Self::Run(jobs, body) => drop(jobs.send(Box::new(move || body(Ok(()))))),
        }
    }
}

struct Watcher {
    question: Arc<dyn Question>,
    /// What it is in order with: the stream that recorded its event, if it is one.
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
        let asked = catch_unwind(AssertUnwindSafe(|| self.question.ask())).unwrap_or_else(|payload| {
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
        contain(|| drop(self.question));
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
                    std::thread::yield_now();
                    turn = Instant::now();
                }
            } else if waited < SPIN {
                std::thread::yield_now();
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
            std::thread::sleep(time);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Over once it was asked so many times.
    struct Steps(AtomicUsize);

    impl Question for Steps {
        fn ask(&self) -> DriverResult<bool> {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            Ok(left == 0)
        }
    }

    fn question(steps: usize) -> Arc<dyn Question> {
        Arc::new(Steps(AtomicUsize::new(steps)))
    }

    fn watcher(question: Arc<dyn Question>) -> (Watcher, Arc<Watch>) {
        let watch = Watch::new(Waker::noop().clone());
        let watcher = Watcher {
            question,
            origin: None,
            done: Done::Wake(Arc::clone(&watch)),
        };
        (watcher, watch)
    }

    /// A closure of the user's, which asks when it is dropped whether it could wait for something
    /// now.
    struct AsksWhenDropped(Arc<Completion>, Sender<bool>);

    impl Drop for AsksWhenDropped {
        fn drop(&mut self) {
            self.1.send(self.0.arrivals.is_free()).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_sent_is_dropped_with_no_lock_held() {
        let completion = Arc::new(Completion {
            arrivals: Thread::ended(),
            ..Completion::of(Backend::Simulated)
        });
        let (sender, asked) = channel();
        let asks = AsksWhenDropped(Arc::clone(&completion), sender);
        let (jobs, _received) = channel();
        let done = Done::Run(jobs, Box::new(move |_| drop(asks)));
        let question = question(1);
        completion.watch(question, None, done, || ()).unwrap_err();
        assert_eq!(asked.recv(), Ok(true));
    }

    #[test]
    fn what_is_done_behind_one_that_is_pending_is_found_and_so_is_what_no_one_waits_for() {
        let mut waiting = Waiting::default();
        let (slow, slow_watch) = watcher(question(10_000));
        waiting.add(slow);
        let mut watches = Vec::new();
        for number in 0..200 {
            // Every other one is slow too, and cancelled.
            let cancelled = number % 2 == 1;
            let (behind, watch) = watcher(question(if cancelled { 1000 } else { 0 }));
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
    }

    #[test]
    fn the_thread_wakes_and_ends_with_the_last_sender() {
        let completion = Completion::of(Backend::Simulated);
        let watch = Watch::new(Waker::noop().clone());
        let (sender, ended) = channel();
        let question = question(100);
        let done = Done::Wake(Arc::clone(&watch));
        completion
            .watch(question, None, done, move || sender.send(()).unwrap())
            .unwrap();
        completion.close();
        ended
            .recv_timeout(Duration::from_secs(60))
            .expect("the thread runs what is left to do at its end");
        assert_eq!(watch.poll(Waker::noop()).unwrap(), Poll::Ready(Ok(())));
    }
}
