//! A driver that unwinds from a call, once: before it makes the call, or after; or that makes the
//! call and returns an error.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_rt::checker::Race;
use cuda_rt::driver::{
    Collective, Communicator, DeviceAddress, DriverError, DriverResult, ErrorCode, ForeignUse, HostMemory,
    MemoryInfo, MemoryPoolStats, Number, Part, PeerAccess, Properties, RawEvent, RawGraph, RawNode, RawPeer,
    RawStream,
};
use cuda_rt::driver::{Copies, Driver, Events, Graphs, Kernels, Memory, Peers, Streams};
use cuda_rt::driver::{DriverWithTools, Hint, Simulated, Tools, Trace};
use cuda_rt::kernel::{Kernel, LaunchShape};

/// How a call breaks the contract of [`Driver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// It unwinds, and was not made.
    Before,
    /// It was made, and unwinds.
    After,
    /// It was made, and returns an error, which says that it was not.
    Denied,
}

pub(crate) const BOTH: [When; 2] = [When::Before, When::After];
pub(crate) const ALL: [When; 3] = [When::Before, When::After, When::Denied];

/// What the error says of a call that was made.
pub(crate) const DENIED: &str = "injected behind the call";

/// The result of a call that was made, and denies it.
trait Deny {
    fn denied(self, method: &'static str) -> Self;
}

impl<R> Deny for DriverResult<R> {
    fn denied(self, method: &'static str) -> Self {
        self.and_then(|_| Err(DriverError::with_detail(method, ErrorCode::ILLEGAL_STATE, DENIED)))
    }
}

/// Calls that cannot fail do not.
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

/// What an injected panic carries. It is thrown past the panic hook.
struct Injected;

/// Runs `body`, up to an injected panic: `None` then. Goes on with any other.
pub(crate) fn until_unwound<O>(body: impl FnOnce() -> O) -> Option<O> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(output) => Some(output),
        Err(payload) if payload.is::<Injected>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

#[derive(Debug, Default)]
struct State {
    /// Calls since it was armed.
    calls: u64,
    due: Option<Due>,
    unwound: bool,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    /// A method of the driver; any, where it is `None`.
    of: Option<&'static str>,
    /// Calls until it is due; 1 is the next.
    remaining: u64,
    when: When,
}

/// Which call unwinds: one count for all drivers that share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan(Arc<Mutex<State>>);

impl Plan {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing unwinds under it")
    }

    /// The `nth` call from now on unwinds, of the method `of` if one is named; the next is
    /// number 1.
    pub(crate) fn arm(&self, of: Option<&'static str>, nth: u64, when: When) {
        let remaining = nth;
        *self.state() = State {
            due: Some(Due { of, remaining, when }),
            ..State::default()
        };
    }

    /// Starts to count calls, none of which unwinds.
    pub(crate) fn count(&self) {
        *self.state() = State::default();
    }

    /// Calls since it was armed.
    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Whether the call that was to unwind has.
    pub(crate) fn has_unwound(&self) -> bool {
        self.state().unwound
    }

    /// Counts a call of `method`, makes it, and unwinds where that is due.
    fn call<R: Deny>(&self, method: &'static str, make: impl FnOnce() -> R) -> R {
        let when = {
            let mut state = self.state();
            state.calls += 1;
            match &mut state.due {
                Some(due) if due.of.is_none_or(|of| of == method) => {
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
            None => make(),
        }
    }
}

/// Passes all calls on, but for the one that unwinds.
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

// SAFETY: as `inner`, to which every call is passed on as it is; but that one call unwinds, which
// the contract forbids, and which these tests are about.
unsafe impl Driver for Unwinding {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }
}

impl Streams for Unwinding {
    cuda_rt::driver::stream_calls! { each |this, name, call| this.plan.call(name, || call(&*this.inner)) }
}

impl Events for Unwinding {
    cuda_rt::driver::event_calls! { each |this, name, call| this.plan.call(name, || call(&*this.inner)) }
}

impl Memory for Unwinding {
    cuda_rt::driver::memory_calls! { each |this, name, call| this.plan.call(name, || call(&*this.inner)) }
}

impl Copies for Unwinding {
    cuda_rt::driver::copy_calls! { each |this, name, call| this.plan.call(name, || call(&*this.inner)) }
}

impl Kernels for Unwinding {
    cuda_rt::driver::kernel_calls! { each |this, name, call| this.plan.call(name, || call(&*this.inner)) }
}

impl Graphs for Unwinding {
    cuda_rt::driver::graph_calls! { each |this, name, call| this.plan.call(name, || call(&*this.inner)) }
}

impl Peers for Unwinding {
    cuda_rt::driver::peer_calls! { forward to |this| &*this.inner; peer }

    cuda_rt::driver::peer_calls! { |this, call|
        peer_access(peer) => this.plan.call("peer_access", || call(&*this.inner));
        copy_peer(to, from, bytes, stream) => this.plan.call("copy_peer", || call(&*this.inner));
        communicator(ranks) => {
            let inner = this.plan.call("communicator", || call(&*this.inner))?;
            let plan = this.plan.clone();
            Ok(Box::new(UnwindingCommunicator { inner, plan }))
        };
    }
}

// SAFETY: the streams are those of `inner`, and so are the traces.
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

// SAFETY: as `inner`, but for the call that unwinds.
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
