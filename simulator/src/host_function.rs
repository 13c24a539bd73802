//! Host functions: the thread that runs them, and the waits for it.
//!
//! A host function is code of the program. It may take a lock that a thread holds during a call of
//! the driver, or look at the simulated device. So it runs on a thread of its own, as in CUDA, and
//! outside the device's lock. While it runs, its stream is busy, and other streams go on.
//!
//! A call that waits for the stream waits for the function too. Any other call gives a running
//! function some time ([`GRACE`]) to end. So a program whose functions end soon runs in an order
//! that depends on the seed only. A function that waits for the caller delays one call a little.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::op::Op;
use super::{Core, State};
use cuda_rt_driver::host_function::is_inside;
use cuda_rt_driver::process::Process;
use cuda_rt_driver::{DriverError, ErrorCode, HostFunction};

/// The time that calls which do not wait give each function.
const GRACE: Duration = Duration::from_millis(100);

/// A function that a stream has come to.
struct Started {
    function: HostFunction,
    stream: u64,
}

/// The thread for host functions, and the functions that it was given. Part of the device's state.
#[derive(Debug)]
pub(super) struct HostFunctions {
    core: Weak<Core>,
    thread: Option<Sender<Started>>,
    /// The process of the thread. A forked child has no copy of it.
    process: Process,
    /// Number of functions that run, or wait for the thread.
    running: usize,
    /// Whether functions were running when the process was forked. They never end in the child.
    left: bool,
    /// When the grace of all these functions ends.
    grace: Option<Instant>,
}

impl HostFunctions {
    pub(super) fn new(core: Weak<Core>) -> Self {
        Self {
            core,
            thread: None,
            process: Process::current(),
            running: 0,
            left: false,
            grace: None,
        }
    }

    /// The device that the functions belong to, unless it is gone.
    pub(super) fn core(&self) -> Option<Arc<Core>> {
        self.core.upgrade()
    }

    /// Whether a function runs, which may hold work back.
    pub(super) fn any_runs(&self) -> bool {
        self.running > 0 || self.left
    }

    /// Notices that the process was forked.
    fn note_fork(&mut self) {
        let process = Process::current();
        if self.process != process {
            self.process = process;
            self.left |= self.running > 0;
            (self.running, self.thread, self.grace) = (0, None, None);
        }
    }

    /// Gives a function to the thread, which is started if there is none.
    fn start(&mut self, started: Started) -> std::io::Result<()> {
        self.note_fork();
        let thread = match &self.thread {
            Some(thread) => thread,
            None => {
                let (sender, functions) = channel();
                let core = Weak::clone(&self.core);
                std::thread::Builder::new()
                    .name("simulated-host-functions".into())
                    .spawn(move || run(&functions, &core))?;
                self.thread.insert(sender)
            }
        };
        thread
            .send(started)
            .map_err(|_| std::io::Error::other("the thread for host functions has ended"))?;
        self.running += 1;
        self.grace = Some(Instant::now() + GRACE);
        Ok(())
    }
}

/// Runs functions until the device is gone.
fn run(functions: &Receiver<Started>, core: &Weak<Core>) {
    for Started { function, stream } in functions {
        // SAFETY: the contract of `launch_host_function`: the stream has come to the function,
        // which does not unwind.
        unsafe { (function.run)(function.argument()) };
        if let Some(core) = core.upgrade() {
            core.host_function_ended(stream);
        }
    }
}

impl State {
    /// Starts the host function at which `stream` stands.
    pub(super) fn start_host_function(&mut self, stream: u64, function: HostFunction) {
        if let Err(why) = self.host_functions.start(Started { function, stream }) {
            let detail = format!("no thread for host functions: {why} ({})", self.origin());
            self.lost = Some(DriverError::with_detail(
                "cuLaunchHostFunc",
                ErrorCode::UNKNOWN,
                detail,
            ));
        }
    }

    /// The host function at which `stream` stands has ended.
    fn end_host_function(&mut self, stream: u64) {
        self.host_functions.running -= 1;
        let s = self.streams.get_mut(stream).expect("a busy stream stays");
        s.busy = false;
        match s.queue.front_mut() {
            Some(Op::Graph {
                replay: Some(replay), ..
            }) => replay.host_function_ended(),
            _ => {
                let function = s.queue.pop_front().expect("it stood there while it ran");
                self.schedule.pending -= 1;
                self.counters.count(&function);
                self.executed(stream);
            }
        }
        self.run_held_back();
    }
}

/// Wakes the threads that wait for a host function.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Number of functions that have ended.
    count: Mutex<u64>,
    more: Condvar,
}

impl Ended {
    fn count(&self) -> u64 {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one_more(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.more.notify_all();
    }

    /// Waits until the count is not `seen` any more, but not beyond `until`. Returns whether it is
    /// not.
    fn wait(&self, seen: u64, until: Option<Instant>) -> bool {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count == seen {
            count = match until {
                None => self.more.wait(count).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let waited = self.more.wait_timeout(count, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }
}

impl Core {
    fn host_function_ended(self: &Arc<Self>, stream: u64) {
        // If a panic has lost the device, nothing goes on.
        let _ = self.locked(|state| state.end_host_function(stream));
        self.ended.one_more();
    }

    /// The number of functions that have ended, and the end of their grace, if one runs. Taken
    /// under the state's lock, so that no end is missed.
    fn running(&self) -> Option<(u64, Option<Instant>)> {
        let running = self.state.enter(|state| {
            let functions = &mut state.host_functions;
            functions.note_fork();
            (functions.running > 0).then(|| (self.ended.count(), functions.grace))
        });
        running.ok().flatten()
    }

    /// Whether a host function was running when this process was forked: it never ends here.
    pub(super) fn has_lost_a_host_function(&self) -> bool {
        self.state
            .enter(|state| state.host_functions.left)
            .unwrap_or(false)
    }

    /// Gives running host functions some time to end.
    pub(super) fn settle(&self) {
        while let Some((seen, grace @ Some(_))) = self.running() {
            if is_inside() || !self.ended.wait(seen, grace) {
                return;
            }
        }
    }

    /// Waits until a running host function has ended. False if none runs, or if this thread is
    /// inside one.
    pub(super) fn wait_for_host_function(&self) -> bool {
        if is_inside() {
            return false;
        }
        self.running()
            .is_some_and(|(seen, _)| self.ended.wait(seen, None))
    }
}
