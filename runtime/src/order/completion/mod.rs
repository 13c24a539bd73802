//! The threads that wait for pending handoffs on behalf of tasks: one thread for each device with
//! pending waits.
//!
//! Design choices:
//! - The thread queries events (`cuEventQuery`) and enqueues no host function. A host function does
//!   not run after a sticky error, may not call CUDA (docs/soundness.md, obligation 11), and delays
//!   the work behind it. A query returns the error, so a future always ends.
//! - A stream runs in order, so the thread asks the oldest wait of each stream first. While that
//!   wait is pending, the thread asks only a few others. A round with thousands of waits costs
//!   about as much as a round with one wait for each stream.
//! - After an arrival or a completion the thread asks without pause for a moment. After that it
//!   sleeps a 64th of the time since. So it is late by a small part of the waiting time, and long
//!   waits cost little.
//! - On a simulated device each question runs an operation: the thread does the GPU's work. So it
//!   asks without pause while anything is pending, and yields the processor once in a
//!   [`YIELD_PERIOD`], not after each operation.
//! - A forked child has no copy of the threads. A wait in the child that the parent's thread was to
//!   end gets an error.
//! - No lock is held while a waker or a closure is cloned, called, sent or dropped, and a panic
//!   there is caught. Closures run on a thread of their own (`closures`), because they may block.
//! - The threads ask a [`Question`], and know nothing of events. So the tests of the threads need
//!   no device.
//!
//! The thread starts with the first wait and ends with the device. The safety of a bundle does not
//! depend on its future, which may be dropped or leaked: the bundle is in the handoff, and the
//! thread holds only the events ([H27](crate::hazards#h27)).

mod closures;
mod scope;
mod thread;

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

pub(crate) use self::closures::Closures;
use self::closures::Job;
pub use self::scope::{DoneScope, done_scope};
use self::thread::{Thread, check_process, contain};
use crate::order::stream_ref::StreamId;
use crate::order::unless::unwound;
use cuda_rt_driver::host_function;
use cuda_rt_driver::process::{Process, without_children};
use cuda_rt_driver::{Backend, DriverResult, ErrorCode};

/// Time after an arrival or a completion in which the thread asks without pause.
const SPIN: Duration = Duration::from_micros(50);
/// Time for which the thread asks a simulated device before it yields the processor. If all
/// processors are busy, a yield costs some milliseconds, however short the time since the last.
const YIELD_PERIOD: Duration = Duration::from_millis(1);
/// After [`SPIN`], the thread sleeps the waiting time divided by this.
const SLEEP_PART: u32 = 64;
/// The longest sleep.
const LONGEST_SLEEP: Duration = Duration::from_micros(250);
/// The number of waits behind a stream's oldest wait that one round asks. They may have arrived in
/// another order than their events were recorded, or their futures may be gone.
const PROBES: usize = 16;

/// A wait's condition: an event, or a fence of several events.
pub(crate) trait Question: Send + Sync {
    /// Whether the condition is over. An error ends the wait.
    fn ask(&self) -> DriverResult<bool>;
}

/// The handle of one device's threads. They run while a wait is pending or the device exists.
#[derive(Debug)]
pub(crate) struct Completion {
    /// The channel to the thread that asks.
    arrivals: Thread<Watcher>,
    /// Shared with the captures of the device.
    closures: Arc<Closures>,
    /// Whether `closures` end with this value.
    owns_closures: bool,
    /// Whether the thread that asks sleeps between rounds.
    pauses: bool,
}

impl Completion {
    /// The threads for a device of `backend`. A GPU runs its work by itself; a simulated device
    /// does not.
    pub(crate) fn of(backend: Backend) -> Self {
        Self {
            arrivals: Thread::default(),
            closures: Arc::default(),
            owns_closures: true,
            pauses: backend != Backend::Simulated,
        }
    }

    /// The threads for a capture on this device: closures run on the device's own thread.
    pub(crate) fn for_capture(&self) -> Self {
        Self {
            arrivals: Thread::default(),
            closures: Arc::clone(&self.closures),
            owns_closures: false,
            pauses: self.pauses,
        }
    }

    /// The thread for closures.
    pub(crate) fn closures(&self) -> &Arc<Closures> {
        &self.closures
    }

    /// Lets the threads end once no wait is pending.
    pub(crate) fn close(&self) {
        self.arrivals.close();
        if self.owns_closures {
            self.closures.close();
        }
    }

    /// Does `done` once `question` is over or returns an error. Questions of one `origin` should be
    /// over in the order of their arrival. If the call starts the thread, the thread runs `at_end`
    /// when it ends.
    pub(crate) fn watch(
        &self,
        question: Arc<dyn Question>,
        origin: Option<StreamId>,
        done: Done,
        at_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let pauses = self.pauses;
        let sender = self.arrivals.sender(|| start(pauses, at_end))?;
        // The thread receives until the last sender is gone. The lock is not held here: a failed
        // send drops the watcher, and so runs code of users.
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
            scope::mark_thread();
            Waiting::default().run(&receiver, pauses);
            at_end();
        })?;
    Ok(sender)
}

/// The state of one wait, which a future and the thread share.
#[derive(Debug)]
pub(crate) struct Watch {
    state: Mutex<State>,
    /// The process whose thread ends the wait.
    process: Process,
}

#[derive(Debug)]
enum State {
    Pending(Waker),
    Over(DriverResult<()>),
}

impl Watch {
    /// The wait of a future whose task `waker` wakes. [`Done::Wake`] ends it.
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Pending(waker)),
            process: Process::current(),
        })
    }

    /// Returns the outcome, or remembers `waker` as the waker to wake. An error if no thread of
    /// this process will wake it.
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
        // A waker's clone and drop run the executor's code. So they happen outside the lock, which
        // the thread of all wake-ups takes.
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
        // The state is consistent after any panic, also in a waker's `clone`: it is replaced in one
        // step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The action at the end of a wait.
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

    /// Does the action at once, because the condition is already over.
    pub(crate) fn now(self) {
        match self {
            Self::Wake(watch) => watch.end(Ok(())),
            Self::Run(jobs, body) => drop(jobs.send(Box::new(move || body(Ok(()))))),
        }
    }
}

struct Watcher {
    question: Arc<dyn Question>,
    /// The stream that recorded the event, if the question is a single event.
    origin: Option<StreamId>,
    done: Done,
}

/// The answer of a wait that has ended.
enum Answer {
    /// The future is gone.
    Cancelled,
    Over(DriverResult<()>),
}

impl Watcher {
    /// Asks the question. `None` while the wait is pending.
    fn ask(&self) -> Option<Answer> {
        if let Done::Wake(watch) = &self.done
            && Arc::strong_count(watch) == 1
        {
            return Some(Answer::Cancelled);
        }
        // A question that unwinds ends this wait, and no other.
        // A simulated device may run a kernel's body here, and a subscriber may be told of an
        // error: a child of `fork` does not leave them (`contain`).
        let ask = AssertUnwindSafe(|| without_children(|| self.question.ask()));
        let asked = catch_unwind(ask).unwrap_or_else(|payload| {
            // The drop of the payload may panic again.
            std::mem::forget(payload);
            Err(unwound("cuEventQuery"))
        });
        match asked {
            Ok(false) => None,
            Ok(true) => Some(Answer::Over(Ok(()))),
            // The process ends. No user code may run now, and nobody joins this thread. (The code
            // alone does not say so: an injected fault has it too.)
            Err(error) if error.code() == ErrorCode::DEINITIALIZED && host_function::process_ends() => loop {
                std::thread::park();
            },
            Err(error) => Some(Answer::Over(Err(error))),
        }
    }

    fn finish(self, answer: Answer) {
        // The question goes first, so that the woken task is the only holder of the events.
        contain(|| drop(self.question));
        let Answer::Over(outcome) = answer else {
            // This drops the waker, which runs the executor's code.
            return contain(|| drop(self.done));
        };
        match self.done {
            Done::Wake(watch) => contain(|| watch.end(outcome)),
            // The thread receives until the last sender is gone, and `jobs` is a sender. If the
            // send still fails, the handoff in the closure is dropped, behind its fence.
            Done::Run(jobs, body) => contain(|| drop(jobs.send(Box::new(move || body(outcome))))),
        }
    }
}

/// The waits for events of one stream or, without an origin, for fences of several streams.
struct Queue {
    origin: Option<StreamId>,
    watchers: VecDeque<Watcher>,
    /// The index of the wait that was probed last.
    probed: usize,
}

impl Queue {
    /// Asks one round. Returns whether a wait ended.
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

/// All waits of one device.
#[derive(Default)]
struct Waiting(Vec<Queue>);

impl Waiting {
    /// Runs until no sender is left and no wait is pending. With `pauses` it sleeps between rounds.
    /// On a simulated device it must not sleep: there the questions run the work.
    fn run(mut self, arrivals: &Receiver<Watcher>, pauses: bool) {
        let mut last = Instant::now();
        let mut last_yield = last;
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
                if last_yield.elapsed() >= YIELD_PERIOD {
                    std::thread::yield_now();
                    last_yield = Instant::now();
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

/// Sleeps until a watcher arrives, but no longer than `time`.
fn sleep(arrivals: &Receiver<Watcher>, time: Duration) -> Option<Watcher> {
    match arrivals.recv_timeout(time) {
        Ok(watcher) => Some(watcher),
        Err(RecvTimeoutError::Timeout) => None,
        // The device is gone, but the pending waits remain.
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

    /// A question that is over after the given number of calls.
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

    /// Captured by a user's closure. When it is dropped, it reports whether the lock is free.
    struct AsksWhenDropped(Arc<Completion>, Sender<bool>);

    impl Drop for AsksWhenDropped {
        fn drop(&mut self) {
            self.1.send(self.0.arrivals.is_free()).unwrap();
        }
    }

    #[test]
    fn a_watcher_that_cannot_be_sent_is_dropped_with_no_lock_held() {
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
    fn probes_find_finished_and_cancelled_waits_behind_a_pending_wait() {
        let mut waiting = Waiting::default();
        let (slow, slow_watch) = watcher(question(10_000));
        waiting.add(slow);
        let mut watches = Vec::new();
        for number in 0..200 {
            // Every second wait is slow too, and cancelled.
            let cancelled = number % 2 == 1;
            let (behind, watch) = watcher(question(if cancelled { 1000 } else { 0 }));
            waiting.add(behind);
            if !cancelled {
                watches.push(watch);
            }
        }
        // Each round probes `PROBES` waits behind the first, and no wait twice before all were
        // asked.
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
