//! [`HostTask`]: a closure that a stream runs as a host function (`cuLaunchHostFunc`).
//!
//! A stream reaches a task once, a graph at each launch:
//!
//! ```text
//!   Stream::host_fn ── into_raw ──▶ the driver ──▶ run_once: the call, and the end of the task
//!   in a capture:      the graph owns the task ──▶ run_again: the call, at each launch
//!                      the graph's end or update ──▶ end_all: the end, behind the last launch
//!   the end of the task ──▶ the thread for closures drops the closure and its captures
//! ```
//!
//! A destructor may call CUDA, so no closure is dropped inside a host function. A closure that
//! panics loses the device, before CUDA takes the function for done: no wait for the device ends
//! with data that the closure left half-written.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use crate::order::completion::Closures;
use crate::order::unless::{Leaked, Unless};
use cuda_rt_driver::call_lock::message as panic_message;
use cuda_rt_driver::host_function;
use cuda_rt_driver::{Driver, DriverError, ErrorCode, HostFunction};

/// A closure that a stream runs on the host.
///
/// # Invariants
/// HOST-TASK-1. Only [`run`](Self::run) calls the closure, under the lock of `state`: no two calls
/// overlap.
/// HOST-TASK-2. The closure is dropped on the thread for closures, or leaked.
pub(crate) struct HostTask {
    /// `None` once the task is cancelled.
    state: Mutex<Option<State>>,
    /// The device that a panic loses. The driver may end before the task: a driver that is gone
    /// shows no results.
    driver: Weak<dyn Driver>,
    at: &'static Location<'static>,
}

/// The closure, and the thread on which it ends. A task that is leaked keeps no thread running.
struct State {
    body: Box<dyn FnMut() + Send>,
    closures: Arc<Closures>,
}

impl State {
    /// Drops the closure on the thread for closures, or leaks it.
    fn end(self) {
        let Self { body, closures } = self;
        // Leaked unless the thread has it: HOST-TASK-2.
        let body = Leaked::new(body);
        if let Ok(jobs) = closures.sender() {
            // The thread receives until the last sender is gone, so the send does not fail. A job
            // that never runs leaks the closure.
            let _ = jobs.send(Box::new(move || drop(body.take_back())));
        }
    }
}

impl fmt::Debug for HostTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTask({})", self.at)
    }
}

impl HostTask {
    /// A task for the call at `at`, whose closure ends on the thread of `closures`.
    pub(crate) fn new(
        body: Box<dyn FnMut() + Send>,
        closures: Arc<Closures>,
        driver: Weak<dyn Driver>,
        at: &'static Location<'static>,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(Some(State { body, closures })),
            driver,
            at,
        })
    }

    /// The host function that runs the task each time. The caller keeps the task until the last
    /// call is over.
    pub(crate) fn again(self: &Arc<Self>) -> HostFunction {
        HostFunction {
            run: run_again,
            data: Arc::as_ptr(self).expose_provenance(),
        }
    }

    /// Gives the task to `launch`, as the host function that runs it once. If `launch` fails or
    /// unwinds, the closure is cancelled. A call that failed may have taken effect: the task
    /// itself, without its closure, is then leaked.
    pub(crate) fn launch_once<R, E>(
        self: Arc<Self>,
        launch: impl FnOnce(HostFunction) -> Result<R, E>,
    ) -> Result<R, E> {
        let cancelled = Unless::new(Arc::clone(&self), |task: Arc<Self>| task.cancel());
        let launched = launch(HostFunction {
            run: run_once,
            data: Arc::into_raw(self).expose_provenance(),
        })?;
        drop(cancelled.take_back());
        Ok(launched)
    }

    /// Gives tasks to `launch`, as a host function that ends them. If `launch` fails or unwinds,
    /// they are leaked, because the work before that function may still call them.
    pub(crate) fn end_all<R>(tasks: Vec<Arc<Self>>, launch: impl FnOnce(HostFunction) -> R) -> R {
        launch(HostFunction {
            run: end_all,
            data: Box::into_raw(Box::new(tasks)).expose_provenance(),
        })
    }

    /// Ends the closure, unless it runs now.
    fn cancel(&self) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The failed call took effect, and the closure runs: `run_once` ends it.
            Err(TryLockError::WouldBlock) => return,
        };
        let ended = state.take();
        drop(state);
        if let Some(ended) = ended {
            ended.end();
        }
    }

    /// Calls the closure. A panic loses the device, and unwinds no further. At the end of the
    /// process the closure is not called, and the device is lost too: no wait of another thread may
    /// take the closure's work for done.
    fn run(&self) {
        let called = AssertUnwindSafe(|| {
            // After a panic the lock is poisoned, and the closure is not called again.
            match self.state.lock().as_deref_mut() {
                Ok(Some(State { body, .. })) => host_function::inside(body).is_some(),
                _ => true,
            }
        });
        let failed = match catch_unwind(called) {
            Ok(true) => None,
            Ok(false) => Some("was not called, because the process ends".to_owned()),
            Err(payload) => Some(format!("panicked: {}", panic_message(payload))),
        };
        if let Some(failed) = failed {
            let lost = catch_unwind(AssertUnwindSafe(|| self.lose(&failed)));
            if let Err(payload) = lost {
                // A driver that unwinds breaks its contract. The drop of the payload may panic.
                std::mem::forget(payload);
            }
        }
    }

    fn lose(&self, failed: &str) {
        let detail = format!("the host function at {} {failed}", self.at);
        let why = DriverError::with_detail("cuLaunchHostFunc", ErrorCode::UNKNOWN, detail);
        if let Some(driver) = self.driver.upgrade() {
            // An error says that the device is lost already.
            let _ = driver.lose(why);
        }
    }
}

impl Drop for HostTask {
    fn drop(&mut self) {
        // HOST-TASK-2: the last owner may be the host function itself.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = state.take() {
            ended.end();
        }
    }
}

/// Runs a task, and ends it.
///
/// # Safety
/// `data` is from [`Arc::into_raw`] of a [`HostTask`], and this is the only call with it.
unsafe extern "C" fn run_once(data: *mut c_void) {
    // SAFETY: `launch_once` gave the pointer away, and the driver calls this once.
    let task = unsafe { Arc::from_raw(data.cast_const().cast::<HostTask>()) };
    task.run();
    // As in `end_all`.
    let ended = catch_unwind(AssertUnwindSafe(|| drop(task)));
    if let Err(payload) = ended {
        std::mem::forget(payload);
    }
}

/// Runs a task that a graph owns.
///
/// # Safety
/// `data` is from [`Arc::as_ptr`] of a [`HostTask`] that lives until this returns.
unsafe extern "C" fn run_again(data: *mut c_void) {
    // SAFETY: the graph keeps the task until its last launch is over (INSTANCE-3).
    let task = unsafe { &*data.cast_const().cast::<HostTask>() };
    task.run();
}

/// Ends tasks that no launch calls any more.
///
/// # Safety
/// `data` is from [`Box::into_raw`] of a list of tasks, and this is the only call with it.
unsafe extern "C" fn end_all(data: *mut c_void) {
    // SAFETY: `HostTask::end_all` gave the pointer away, and the driver calls this once.
    let tasks = unsafe { Box::from_raw(data.cast::<Vec<Arc<HostTask>>>()) };
    // A closure ends on the thread for closures, so no code of users runs here. A failure of the
    // system must not unwind into C.
    let ended = catch_unwind(AssertUnwindSafe(|| drop(tasks)));
    if let Err(payload) = ended {
        std::mem::forget(payload);
    }
}
