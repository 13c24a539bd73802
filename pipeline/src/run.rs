//! Runs the stages, with a thread for each, and collects their failures.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::clock::HostClock;
use super::error::{Cause, Panic, PipelineError, Stage, StageKind};
use super::meter::{Epoch, Meter};
use super::report::{Report, StageReport};
use cuda_rt_runtime::Device;
use cuda_rt_runtime::Result;
use cuda_rt_runtime::Stream;
use cuda_rt_runtime::TimedEvent;
use cuda_rt_runtime::driver::process::{EndsChild, without_children};
use cuda_rt_runtime::timeline::{Scope, scope};
use cuda_rt_runtime::{Live, StreamTag};

/// Ends a pipeline early, from any thread: [`Pipeline::cancel_with`](super::Pipeline::cancel_with).
///
/// The source takes no further item. Items that have begun go through all stages, so no item is
/// lost, and the pipeline returns its report.
///
/// ```
/// use cuda_rt::{Device, pipeline::{Cancel, Pipeline}};
///
/// # cuda_rt::streams! { Compute; Download; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpu = Device::open_or_simulate()?;
/// let cancel = Cancel::new();
/// let report = Pipeline::new(&gpu, 2)
///     .cancel_with(&cancel)
///     .generate::<Compute, u32, _>(16, 0.., |stream, item, data| {
///         stream.fill(data, *item)?;
///         Ok(data.len())
///     })
///     .download::<Download>()
///     .sink(|item, _data| {
///         if item == 3 {
///             cancel.cancel(); // without it the items would never end
///         }
///         Ok(())
///     })
///     .run()?;
/// assert!(cancel.is_cancelled() && report.cancelled);
/// assert!(report.items >= 4); // what had begun was finished
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A token that is not cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels every pipeline that was given this token or a clone of it. It cannot be undone.
    pub fn cancel(&self) {
        // The flag publishes no other data, so `Relaxed` is enough.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// One stage's work on one item, which is done; see [`Ready::watch`](super::Ready::watch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worked {
    /// Index of the stage, as in [`Report::stages`].
    pub stage: usize,
    /// Index of the item.
    pub item: u64,
    /// Start of the work, since the pipeline began.
    pub start: Duration,
    /// End of the work, since the pipeline began.
    pub end: Duration,
}

impl Worked {
    /// Work of stage `stage` on item `item`, for tests of views.
    pub fn new(stage: usize, item: u64, time: Range<Duration>) -> Self {
        Self {
            stage,
            item,
            start: time.start,
            end: time.end,
        }
    }
}

/// A closure that is told of work that is done.
pub(super) type Watcher<'env> = dyn Fn(Worked) + Send + Sync + 'env;

/// State that all stages share.
struct Shared<'a, D> {
    /// When the run began, on the host's clock.
    began_ns: u64,
    /// `None` if no stream is timed.
    epoch: Option<Epoch<D>>,
    /// One meter for each stage.
    meters: Vec<Meter<D>>,
    /// Whether a stage has failed.
    stopped: AtomicBool,
    cancel: Cancel,
    /// Number of items that the last stage has finished.
    finished: AtomicU64,
    /// Is told of work that is done.
    watcher: Option<&'a Watcher<'a>>,
}

/// A stage's view of the run, or a worker's.
pub(super) struct Context<'a, D> {
    pub(super) clock: HostClock,
    shared: &'a Shared<'a, D>,
    stage: usize,
    kind: StageKind,
    item: Cell<u64>,
    children: EndsChild,
}

impl<D> Shared<'_, D> {
    fn watched(&self, stage: usize, item: u64, start_ns: u64, end_ns: u64) {
        if let Some(watcher) = self.watcher {
            let worked = Worked {
                stage,
                item,
                start: Duration::from_nanos(start_ns),
                end: Duration::from_nanos(end_ns),
            };
            without_children(|| watcher(worked));
        }
    }
}

impl<D: Live> Context<'_, D> {
    /// Begins an item; a later failure counts as a failure on this item. A child of `fork` begins
    /// none, whatever code of users it was forked in.
    pub(super) fn at(&self, item: u64) {
        self.children.ask();
        self.item.set(item);
    }

    /// Whether no further item should begin.
    pub(super) fn halted(&self) -> bool {
        self.shared.stopped.load(Ordering::Relaxed) || self.shared.cancel.is_cancelled()
    }

    /// Enqueues `work` on an item, and times the work.
    pub(super) fn around<S: StreamTag<Device = D>, O>(
        &self,
        item: u64,
        stream: &Stream<S>,
        work: impl FnOnce() -> Result<O>,
    ) -> Result<O> {
        let _scope = self.scope();
        let timed = self.shared.epoch.is_some();
        self.shared.meters[self.stage].around(timed, item, stream, || without_children(work))
    }

    /// Names the thread's work in timelines, until the guard is dropped.
    pub(super) fn scope(&self) -> Scope {
        scope(self.kind.name())
    }

    /// Notes that the host has worked on an item since `started_ns`.
    pub(super) fn worked(&self, item: u64, started_ns: u64) {
        let since = |ns: u64| ns.saturating_sub(self.shared.began_ns);
        let (start_ns, end_ns) = (since(started_ns), since(self.clock.now_ns()));
        self.shared.meters[self.stage].add(item, start_ns, end_ns);
        self.shared.watched(self.stage, item, start_ns, end_ns);
    }

    /// Notes that the last stage has finished an item, and that all work on it is over.
    pub(super) fn finished(&self, item: u64) -> Result<(), Failed> {
        self.shared.finished.fetch_add(1, Ordering::Relaxed);
        let Some(epoch) = &self.shared.epoch else {
            return Ok(());
        };
        let settle = |(stage, meter): (usize, &Meter<D>)| {
            let watched = |item, start_ns, end_ns| self.shared.watched(stage, item, start_ns, end_ns);
            meter.settle(epoch, item, watched).map_err(|error| Failed {
                stage,
                item,
                cause: error.into(),
            })
        };
        self.shared.meters.iter().enumerate().try_for_each(settle)
    }

    pub(super) fn fail(&self, cause: impl Into<Cause>) -> Failed {
        self.fail_at(0, self.item.get(), cause)
    }

    /// The failure of work that another stage has enqueued.
    pub(super) fn fail_at(&self, stages_on: isize, item: u64, cause: impl Into<Cause>) -> Failed {
        Failed {
            stage: self.stage.saturating_add_signed(stages_on),
            item,
            cause: cause.into(),
        }
    }
}

/// A stage's failure.
pub(super) struct Failed {
    stage: usize,
    item: u64,
    cause: Cause,
}

pub(super) type Body<'env, D> = Box<dyn FnOnce(&Context<'_, D>) -> Result<(), Failed> + Send + 'env>;

/// The work of one thread.
pub(super) struct Task<'env, D> {
    pub(super) stage: usize,
    pub(super) body: Body<'env, D>,
}

impl<D: Live> Task<'_, D> {
    /// Runs the stage to its end. By then the body's values are dropped, also after a panic: the
    /// neighbouring stages find their channels closed, and the slots are back in their rings.
    ///
    /// A child of `fork` does not leave a closure of the stage: on a thread of the pipeline it
    /// would go on with what the other closures borrow. The other threads do not exist in the
    /// child, and its next threads take their stacks.
    fn execute(self, context: &Context<'_, D>) -> Result<(), Failed> {
        // The body is dropped after a panic, so no code sees its half-done state again.
        let outcome = catch_unwind(AssertUnwindSafe(|| without_children(|| (self.body)(context))))
            .unwrap_or_else(|payload| Err(context.fail(Panic::new(payload))));
        if outcome.is_err() {
            context.shared.stopped.store(true, Ordering::Relaxed);
        }
        outcome
    }
}

type Mark<'env, D> = Box<dyn Fn() -> Result<TimedEvent<D>> + Send + 'env>;

/// The rings of stages that have ended, kept until all threads have ended.
///
/// A slot that returns to a ring which is gone is freed by the thread that returns it. Whether the
/// ring is gone would depend on which thread is faster, and on a simulated device the last items
/// would take another modelled time from run to run.
#[derive(Clone, Default)]
pub(super) struct Rings<'env>(Arc<Mutex<Vec<Box<dyn Send + 'env>>>>);

impl<'env> Rings<'env> {
    pub(super) fn keep(&self, ring: impl Send + 'env) {
        let mut rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rings.push(Box::new(ring));
    }
}

/// A pipeline whose stages are all known.
pub(super) struct Plan<'env, D: Live> {
    pub(super) gpu: Device<D>,
    pub(super) buffers: usize,
    pub(super) timed: bool,
    pub(super) cancel: Cancel,
    pub(super) stages: Vec<Stage>,
    pub(super) tasks: Vec<Task<'env, D>>,
    /// Number of slots in all rings.
    pub(super) slots: usize,
    /// Records a timing event on the pipeline's first stream.
    pub(super) mark: Option<Mark<'env, D>>,
    /// The first stage that could not be made ready.
    pub(super) failed: Option<PipelineError>,
    pub(super) rings: Rings<'env>,
    /// Is told of work that is done.
    pub(super) watcher: Option<Box<Watcher<'env>>>,
}

impl<'env, D: Live + 'env> Plan<'env, D> {
    pub(super) fn run(mut self) -> Result<Report, PipelineError> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let clock = HostClock::of(&self.gpu);
        let began_ns = clock.now_ns();
        let epoch = self.epoch(&clock, began_ns)?;
        let tasks = std::mem::take(&mut self.tasks);
        let shared = Shared {
            began_ns,
            epoch,
            // Besides the items in slots, each thread may hold one item.
            meters: (0..self.stages.len())
                .map(|_| Meter::new(self.slots + tasks.len()))
                .collect(),
            stopped: AtomicBool::new(false),
            cancel: self.cancel.clone(),
            finished: AtomicU64::new(0),
            watcher: self.watcher.as_deref(),
        };
        let workers = |stage| tasks.iter().filter(|task| task.stage == stage).count();
        let workers: Vec<_> = (0..self.stages.len()).map(workers).collect();

        let context = |stage| Context {
            clock: clock.clone(),
            shared: &shared,
            stage,
            kind: self.stages[stage].kind,
            item: Cell::new(0),
            children: EndsChild::new(),
        };
        let outcomes = on_threads(tasks, &self.stages, &context, &clock);

        let mut first: Option<Failed> = None;
        for outcome in outcomes {
            match outcome {
                Ok(ended_ns) => clock.catch_up(ended_ns),
                Err(failed) => {
                    let earlier = |first: &Failed| (failed.item, failed.stage) < (first.item, first.stage);
                    if first.as_ref().is_none_or(earlier) {
                        first = Some(failed);
                    }
                }
            }
        }
        let finished = shared.finished.load(Ordering::Relaxed);
        if let Some(Failed { stage, item, cause }) = first {
            return Err(PipelineError {
                stage: self.stages[stage],
                item: Some(item),
                cause,
                finished,
            });
        }
        let tallies = shared.meters.into_iter().map(Meter::into_tally);
        let stages = self.stages.iter().zip(tallies).zip(workers);
        Ok(Report::new(
            finished,
            self.buffers,
            clock.now_ns() - began_ns,
            self.gpu.is_simulated(),
            self.cancel.is_cancelled(),
            stages
                .map(|((stage, tally), workers)| StageReport::new(*stage, workers, tally))
                .collect(),
        ))
    }

    fn epoch(&mut self, clock: &HostClock, began_ns: u64) -> Result<Option<Epoch<D>>, PipelineError> {
        let Some(mark) = self.mark.take().filter(|_| self.timed) else {
            return Ok(None);
        };
        let reached = mark().and_then(TimedEvent::synchronize);
        let mark = reached.map_err(|error| PipelineError {
            stage: self.stages[0],
            item: None,
            cause: error.into(),
            finished: 0,
        })?;
        Ok(Some(Epoch {
            mark,
            host_ns: clock.now_ns() - began_ns,
        }))
    }
}

/// Runs each task on a thread of its own. Blocks until all have ended, and returns the time at
/// which each task ended.
fn on_threads<'a, D: Live + 'a>(
    tasks: Vec<Task<'_, D>>,
    stages: &[Stage],
    context: &(dyn Fn(usize) -> Context<'a, D> + Sync),
    clock: &HostClock,
) -> Vec<Result<u64, Failed>> {
    // The lock is held until all threads exist. So no modelled clock starts late, and no task
    // starts if a thread is missing.
    let go = Mutex::new(false);
    let (there, all) = sync_channel(tasks.len());
    thread::scope(|scope| {
        let mut gate = go.lock().unwrap_or_else(PoisonError::into_inner);
        let mut threads = Vec::with_capacity(tasks.len());
        let mut missing = None;
        for task in tasks {
            let (stage, there, go) = (task.stage, there.clone(), &go);
            let body = move || {
                let context = context(stage);
                let _ = there.send(clock.now_ns());
                drop(there);
                if !*go.lock().unwrap_or_else(PoisonError::into_inner) {
                    return Ok(0);
                }
                task.execute(&context)?;
                Ok(context.clock.now_ns())
            };
            match thread::Builder::new()
                .name(stages[stage].to_string())
                .spawn_scoped(scope, body)
            {
                Ok(thread) => threads.push((stage, thread)),
                Err(error) => {
                    missing = Some((stage, Cause::Thread(error)));
                    break;
                }
            }
        }
        drop(there);
        all.iter().take(threads.len()).for_each(drop);
        *gate = missing.is_none();
        drop(gate);
        let joined = threads.into_iter().map(|(stage, thread)| {
            thread.join().unwrap_or_else(|payload| {
                let cause = Panic::new(payload).into();
                Err(Failed {
                    stage,
                    item: 0,
                    cause,
                })
            })
        });
        let mut outcomes: Vec<_> = joined.collect();
        outcomes.extend(missing.map(|(stage, cause)| {
            Err(Failed {
                stage,
                item: 0,
                cause,
            })
        }));
        outcomes
    })
}
