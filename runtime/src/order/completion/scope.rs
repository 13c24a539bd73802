//! [`DoneScope`]: closures of `Handoff::on_done_in`, which may borrow, because [`done_scope`] waits
//! for them.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::thread::check_process;
use cuda_rt_driver::process::{Process, end_child};
use cuda_rt_driver::{DriverResult, host_function};

thread_local! {
    /// Whether this is a thread without which no closure runs. The flag has no destructor, so it
    /// can be read while the thread ends.
    static RUNS_CLOSURES: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that queries events, or runs or drops closures.
pub(super) fn mark_thread() {
    RUNS_CLOSURES.set(true);
}

/// A scope for closures that run when a handoff's work is over
/// ([`Handoff::on_done_in`](crate::Handoff::on_done_in)). [`done_scope`] makes it.
///
/// `'scope` is the time until `done_scope` returns, and `'env` the time in which what the closures
/// borrow must live. Both are as in [`std::thread::Scope`].
pub struct DoneScope<'scope, 'env: 'scope> {
    closures: Arc<Pending>,
    // Invariant: a longer `'scope` would let a closure borrow what the scope does not wait for.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl fmt::Debug for DoneScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.closures.lock().closures;
        f.debug_struct("DoneScope")
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}

/// The closures of one scope that are neither over nor dropped.
#[derive(Debug)]
struct Pending {
    state: Mutex<State>,
    none: Condvar,
    /// The process of the scope. A child of `fork` has no thread that would run its closures.
    process: Process,
}

#[derive(Debug)]
struct State {
    closures: usize,
    panicked: bool,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment, so the state is consistent after any panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until no closure is left. Returns whether one of them panicked.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.closures > 0 {
            self.end_child();
            state = self.none.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.panicked
    }

    /// Ends a child of `fork`. The closures run in its parent alone. Counterexample: the child
    /// leaves the scope while a closure sorts what it borrows. The child keeps the slice with one
    /// element twice, and drops it.
    fn end_child(&self) {
        if self.process.is_current() {
            return;
        }
        end_child(
            "H26: a child of `fork` cannot leave a `done_scope` of its parent, whose closures use what they borrow: \
             fork outside of the scope, or end the child inside it",
        );
    }
}

/// One closure in the count.
struct Counted(Arc<Pending>);

impl Counted {
    fn new(pending: &Arc<Pending>) -> Self {
        pending.lock().closures += 1;
        Self(Arc::clone(pending))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lock().closures -= 1;
        self.0.none.notify_all();
    }
}

type Body<'a> = Box<dyn FnOnce(DriverResult<()>) + Send + 'a>;

/// A closure of a scope, without the scope's lifetime.
///
/// # Invariants
/// DONE-SCOPE-1. `body` exists only while `counted` does: fields are dropped in the order in which
/// they are declared, and `run` drops `counted` last.
struct ScopedBody {
    body: Body<'static>,
    counted: Counted,
}

impl ScopedBody {
    fn run(self, outcome: DriverResult<()>) {
        // Declared first, and so dropped last, also if the closure unwinds.
        let counted = self.counted;
        let body = self.body;
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(outcome))) {
            counted.0.lock().panicked = true;
            resume_unwind(payload);
        }
    }
}

impl<'scope> DoneScope<'scope, '_> {
    /// `body`, counted by this scope until it has run or is dropped.
    ///
    /// # Errors
    /// If this is a child of the scope's process, whose end would wait for no thread.
    pub(crate) fn body(
        &'scope self,
        body: impl FnOnce(DriverResult<()>) + Send + 'scope,
    ) -> io::Result<impl FnOnce(DriverResult<()>) + Send + 'static> {
        check_process(self.closures.process)?;
        let counted = Counted::new(&self.closures);
        let body: Body<'scope> = Box::new(body);
        // SAFETY: the types differ in the lifetime only. DONE-SCOPE-1: `counted` exists as long as
        // the closure does, and `done_scope`, which outlives `'scope`, waits for it. (A closure
        // that is leaked is never called, and keeps the scope waiting for ever.)
        let body = unsafe { std::mem::transmute::<Body<'scope>, Body<'static>>(body) };
        let scoped = ScopedBody { body, counted };
        Ok(move |outcome| scoped.run(outcome))
    }
}

/// Waits for the closures of a scope. It is on the stack of [`done_scope`], so users cannot leak
/// it.
struct Wait<'a>(&'a Pending);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Calls `body` with a scope for closures that may borrow, and blocks until all of them have run or
/// were dropped, also if `body` panics.
///
/// [`Handoff::on_done`](crate::Handoff::on_done) takes a closure and a bundle that borrow nothing,
/// because nobody waits for the closure. This scope does, like [`std::thread::scope`]. So
/// [`on_done_in`](crate::Handoff::on_done_in) takes a closure that borrows what lives longer than
/// this call, and a bundle of a [scoped](crate::Scoped) device.
///
/// The wait is in a guard on this function's stack. Leaking the scope's reference, a handoff or
/// what a closure captured does not skip it. Counterexample to a wait in the destructor of a value
/// that the caller gets: `std::mem::forget` of this value, and the closure writes to a stack frame
/// that is gone.
///
/// # Forks
/// The closures stay in the process of the scope. A child of `fork` that would leave the scope
/// before they are over is ended (`std::process::abort`), because a closure may have changed what
/// it borrows half-way. Fork outside of the scope, or end the child inside it.
///
/// # Hazards prevented
/// [H26](crate::hazards#h26): what a closure borrows lives until the closure is over.
///
/// # Panics
/// If a closure of the scope panicked, after all of them are over, unless `body` panicked. In a
/// closure of `on_done` or `on_done_in`, and in a [host function](crate::Stream::host_fn): the
/// closures of this scope could then wait for the one that waits for them.
///
/// ```
/// # cuda_rt::streams! { pub Download; }
/// # use std::sync::Mutex;
/// cuda_rt::Device::simulated(Default::default(), |gpu| {
///     let download = gpu.stream::<Download<_>>()?;
///     let sums = Mutex::new(Vec::new());
///     cuda_rt::done_scope(|scope| {
///         for value in [1.0, 2.0] {
///             let mut frame = download.alloc_zeroed::<f32>(1024)?;
///             download.fill(&mut frame, value)?;
///             let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
///             download.copy_to_host(&frame, &mut host)?;
///             // The closure borrows `sums`, and gets memory of a scoped device.
///             download.release(host)?.on_done_in(scope, |host| {
///                 let sum = host.map(|host| host.iter().sum::<f32>());
///                 sums.lock().unwrap().push(sum);
///             })?;
///         }
///         Ok::<(), cuda_rt::Error>(())
///     })?;
///     let sums: cuda_rt::Result<Vec<f32>> = sums.into_inner().unwrap().into_iter().collect();
///     assert_eq!(sums?, [1024.0, 2048.0]);
///     Ok::<(), cuda_rt::Error>(())
/// })??;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[track_caller]
pub fn done_scope<'env, T>(body: impl for<'scope> FnOnce(&'scope DoneScope<'scope, 'env>) -> T) -> T {
    assert!(
        !RUNS_CLOSURES.get() && !host_function::is_inside(),
        "H44: a `done_scope` waits for closures, so it cannot run in one, nor in a host function"
    );
    let scope = DoneScope {
        closures: Arc::new(Pending {
            state: Mutex::new(State {
                closures: 0,
                panicked: false,
            }),
            none: Condvar::new(),
            process: Process::current(),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let wait = Wait(&scope.closures);
    let result = body(&scope);
    drop(wait);
    assert!(
        !scope.closures.lock().panicked,
        "a closure of this `done_scope` panicked"
    );
    result
}
