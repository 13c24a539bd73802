//! A driver that breaks its contract in one call. It unwinds before the call or after it, or makes
//! the call and returns an error.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use cuda_rt::Error;
use cuda_rt::checker::Race;
use cuda_rt::driver::{
    Advice, Collective, Communicator, CopyExtent, DeviceAddress, DriverError, DriverResult, ErrorCode,
    ForeignUse, HostFunction, HostMemory, Location, MemoryInfo, MemoryPoolStats, Number, Part, PeerAccess,
    Pitch, Properties, RawEvent, RawGraph, RawNode, RawPeer, RawStream,
};
use cuda_rt::driver::{Copies, Driver, Events, Graphs, Kernels, Managed, Memory, Peers, Streams};
use cuda_rt::driver::{DriverWithTools, Hint, Simulated, Tools, Trace};
use cuda_rt::driver::{FunctionLaunch, RawFunction, RawModule};
use cuda_rt::kernel::{Kernel, KernelAttributes, LaunchShape, SuggestedBlock};

/// How a call breaks the contract of [`Driver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// The call unwinds, and was not made.
    Before,
    /// The call was made, and unwinds.
    After,
    /// The call was made, and returns an error that says it was not.
    Denied,
}

pub(crate) const BOTH: [When; 2] = [When::Before, When::After];
pub(crate) const ALL: [When; 3] = [When::Before, When::After, When::Denied];

/// The error of a call that was made.
pub(crate) const DENIED: &str = "injected behind the call";

/// Results that can deny a call that was made.
trait Deny {
    fn denied(self, method: &'static str) -> Self;
}

impl<R> Deny for DriverResult<R> {
    fn denied(self, method: &'static str) -> Self {
        self.and_then(|_| Err(DriverError::with_detail(method, ErrorCode::ILLEGAL_STATE, DENIED)))
    }
}

/// A call that cannot fail does not deny.
macro_rules! never_denied {
    ($($result:ty),*) => { $(
        impl Deny for $result {
            fn denied(self, _: &'static str) -> Self {
                self
            }
        }
    )* };
}
never_denied!((), Option<Box<dyn Trace>>);

/// The payload of an injected panic. It is thrown without calling the panic hook.
pub(crate) struct Injected;

/// Whether an error says that a call has unwound or was denied, or is a consequence of that.
pub(crate) fn follows(error: &Error) -> bool {
    let says_so = error.driver().is_some_and(|driver| {
        let detail = driver.detail();
        driver.code() == ErrorCode::ILLEGAL_STATE && (detail.contains("unwound") || detail.contains(DENIED))
    });
    // The call that unwound kept the recording or the slot.
    says_so || matches!(error, Error::AlreadyRecording | Error::SlotEmpty)
}

/// Runs `body`. Returns `None` after an injected panic, and resumes any other panic.
pub(crate) fn until_unwound<O>(body: impl FnOnce() -> O) -> Option<O> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(output) => Some(output),
        Err(payload) if payload.is::<Injected>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

#[derive(Debug, Default)]
struct State {
    /// Calls since the plan was armed.
    calls: u64,
    due: Option<Due>,
    unwound: bool,
    /// The calls of one thread, if they are recorded.
    recorded: Option<(ThreadId, Vec<&'static str>)>,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    /// The method to break; `None` means any.
    of: Option<&'static str>,
    /// Calls until the break; 1 is the next call.
    remaining: u64,
    when: When,
    /// The thread whose calls count; `None` means all threads.
    thread: Option<ThreadId>,
}

/// Whether a call counts that is made now, if the calls of `thread` count. A call of a destructor
/// that runs as the thread unwinds does not: another panic would abort the process.
fn counts(thread: ThreadId) -> bool {
    thread == thread::current().id() && !thread::panicking()
}

type Job = (&'static str, When, Box<dyn FnOnce()>);

thread_local! {
    /// What this thread does during its next call of a method.
    static MEANWHILE: RefCell<Option<Job>> = const { RefCell::new(None) };
}

/// Runs `job` in the next call of `method` that this thread makes: before or after the call is
/// passed on. So a test has the order of calls that another thread would make by chance.
pub(crate) fn meanwhile(method: &'static str, when: When, job: impl FnOnce() + 'static) {
    MEANWHILE.set(Some((method, when, Box::new(job))));
}

fn run_meanwhile(method: &'static str, when: When) {
    let is_due = |job: &mut Job| (job.0, job.1) == (method, when);
    let job = MEANWHILE.with_borrow_mut(|job| job.take_if(is_due));
    if let Some((_, _, job)) = job {
        job();
    }
}

/// The plan for the call that unwinds. All drivers that share the plan share one count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan(Arc<Mutex<State>>);

impl Plan {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing unwinds under it")
    }

    /// Makes the `nth` call from now on unwind, of the method `of` if it is given. The next call is
    /// number 1.
    pub(crate) fn arm(&self, of: Option<&'static str>, nth: u64, when: When) {
        self.set(Due {
            of,
            remaining: nth,
            when,
            thread: None,
        });
    }

    /// Breaks the `nth` call of `method` that this thread makes from now on.
    pub(crate) fn arm_here(&self, method: &'static str, nth: u64, when: When) {
        self.set(Due {
            of: Some(method),
            remaining: nth,
            when,
            thread: Some(thread::current().id()),
        });
    }

    fn set(&self, due: Due) {
        *self.state() = State {
            due: Some(due),
            ..State::default()
        };
    }

    /// Starts to record the calls of this thread; no call unwinds.
    pub(crate) fn record_here(&self) {
        *self.state() = State {
            recorded: Some((thread::current().id(), Vec::new())),
            ..State::default()
        };
    }

    /// The calls recorded since [`record_here`](Self::record_here).
    pub(crate) fn recorded(&self) -> Vec<&'static str> {
        let recorded = self.state().recorded.take();
        recorded.map(|(_, calls)| calls).unwrap_or_default()
    }

    /// Starts to count calls; no call unwinds.
    pub(crate) fn count(&self) {
        *self.state() = State::default();
    }

    /// Calls since the plan was armed.
    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Whether the planned call has unwound.
    pub(crate) fn has_unwound(&self) -> bool {
        self.state().unwound
    }

    /// Counts a call of `method` and makes it; unwinds if the call is the planned one.
    fn call<R: Deny>(&self, method: &'static str, make: impl FnOnce() -> R) -> R {
        let when = {
            let mut state = self.state();
            state.calls += 1;
            if let Some((thread, calls)) = &mut state.recorded
                && counts(*thread)
            {
                calls.push(method);
            }
            match &mut state.due {
                Some(due) if due.of.is_none_or(|of| of == method) && due.thread.is_none_or(counts) => {
                    due.remaining -= 1;
                    let when = (due.remaining == 0).then_some(due.when);
                    if when.is_some() {
                        (state.due, state.unwound) = (None, true);
                    }
                    when
                }
                _ => None,
            }
        };
        match when {
            Some(When::Before) => resume_unwind(Box::new(Injected)),
            Some(When::After) => {
                drop(make());
                resume_unwind(Box::new(Injected))
            }
            Some(When::Denied) => make().denied(method),
            None => {
                run_meanwhile(method, When::Before);
                let result = make();
                run_meanwhile(method, When::After);
                result
            }
        }
    }
}

/// Passes all calls on, except the call that unwinds.
#[derive(Debug)]
pub(crate) struct Unwinding {
    inner: Arc<dyn DriverWithTools>,
    plan: Plan,
}

impl Unwinding {
    pub(crate) fn over(inner: Arc<dyn DriverWithTools>, plan: &Plan) -> Arc<Self> {
        let plan = plan.clone();
        Arc::new(Self { inner, plan })
    }
}

// SAFETY: every call is passed on unchanged to `inner`, which keeps the contract. The one planned
// call breaks the contract by unwinding; these tests are about exactly that, and the typed API must
// stay sound.
unsafe impl Driver for Unwinding {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }
}

impl Streams for Unwinding {
    cuda_rt::driver::stream_calls! { each |this: &Unwinding, name, call(&dyn Driver)|
        this.plan.call(name, || call(&*this.inner))
    }
}

impl Events for Unwinding {
    cuda_rt::driver::event_calls! { each |this: &Unwinding, name, call(&dyn Driver)|
        this.plan.call(name, || call(&*this.inner))
    }
}

impl Memory for Unwinding {
    cuda_rt::driver::memory_calls! { each |this: &Unwinding, name, call(&dyn Driver)|
        this.plan.call(name, || call(&*this.inner))
    }
}

impl Managed for Unwinding {
    cuda_rt::driver::managed_calls! { each |this: &Unwinding, name, call(&dyn Driver)|
        this.plan.call(name, || call(&*this.inner))
    }
}

impl Copies for Unwinding {
    cuda_rt::driver::copy_calls! { each |this: &Unwinding, name, call(&dyn Driver)|
        this.plan.call(name, || call(&*this.inner))
    }
}

impl Kernels for Unwinding {
    cuda_rt::driver::kernel_calls! { each |this: &Unwinding, name, call(&dyn Driver)|
        this.plan.call(name, || call(&*this.inner))
    }
}

impl Graphs for Unwinding {
    cuda_rt::driver::graph_calls! { each |this: &Unwinding, name, call(&dyn Driver)|
        this.plan.call(name, || call(&*this.inner))
    }
}

impl Peers for Unwinding {
    cuda_rt::driver::peer_calls! { forward to |this: &Unwinding| -> &dyn DriverWithTools { &*this.inner }; peer }

    cuda_rt::driver::peer_calls! { |this: &Unwinding, call(&dyn Driver)|
        peer_access(peer) => this.plan.call("peer_access", || call(&*this.inner));
        copy_peer(to, from, bytes, stream) => this.plan.call("copy_peer", || call(&*this.inner));
        communicator(ranks) => {
            let inner = this.plan.call("communicator", || call(&*this.inner))?;
            let plan = this.plan.clone();
            Ok(Box::new(UnwindingCommunicator { inner, plan }))
        };
    }
}

// SAFETY: `begin_trace` returns the trace of `inner`, and this driver's streams are streams of
// `inner`.
unsafe impl Tools for Unwinding {
    fn simulator(&self) -> Option<&dyn Simulated> {
        self.inner.simulator()
    }

    fn is_checked(&self) -> bool {
        self.inner.is_checked()
    }

    fn races(&self) -> Vec<Race> {
        self.inner.races()
    }

    fn hint(&self, note: Hint<'_>) {
        self.plan.call("hint", || self.inner.hint(note));
    }

    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        self.plan.call("begin_trace", || self.inner.begin_trace())
    }
}

#[derive(Debug)]
struct UnwindingCommunicator {
    inner: Box<dyn Communicator>,
    plan: Plan,
}

// SAFETY: every call is passed on unchanged to `inner`, except the planned call, as above.
unsafe impl Communicator for UnwindingCommunicator {
    unsafe fn enqueue(&self, what: Collective, of: Number, count: usize, parts: &[Part]) -> DriverResult<()> {
        // SAFETY: the same contract.
        self.plan.call("enqueue", || unsafe {
            self.inner.enqueue(what, of, count, parts)
        })
    }

    fn status(&self) -> DriverResult<()> {
        self.plan.call("status", || self.inner.status())
    }

    fn abort(&self) {
        self.plan.call("abort", || self.inner.abort());
    }
}
