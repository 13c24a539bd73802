//! [`Ready`]: a complete pipeline.

use super::error::PipelineError;
use super::report::Report;
use super::run::{Plan, Worked};
use cuda_rt_runtime::Live;

/// A complete pipeline, from its first stage to its last, ready to run.
#[must_use = "a pipeline does nothing before it is `run`"]
pub struct Ready<'env, D: Live>(pub(super) Plan<'env, D>);

impl<'env, D: Live + 'env> Ready<'env, D> {
    /// Calls `watcher` for each stage's work on each item, when the work has been timed: for live
    /// views of a pipeline. The host's work is told of at its end; the work of streams, when the
    /// last stage is done with the item. The calls come from the threads of the stages, which wait
    /// for `watcher`. A pipeline that is [`untimed`](crate::Pipeline::untimed) tells of the host's
    /// work only. If `watcher` panics, that is a panic of the stage.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use cuda_rt::{Device, pipeline::{Pipeline, Worked}};
    ///
    /// cuda_rt::streams! { Compute; Download; }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gpu = Device::open_or_simulate()?;
    /// let kernels_ns = AtomicU64::new(0);
    /// Pipeline::new(&gpu, 2)
    ///     .generate::<Compute, u32, _>(1024, 0..10, |stream, item, output| {
    ///         stream.fill(output, *item).map(|()| 1024)
    ///     })
    ///     .download::<Download>()
    ///     .sink(|_, _| Ok(()))
    ///     .watch(|Worked { stage, start, end, .. }| {
    ///         if stage == 0 {
    ///             kernels_ns.fetch_add((end - start).as_nanos() as u64, Ordering::Relaxed);
    ///         }
    ///     })
    ///     .run()?;
    /// assert!(kernels_ns.into_inner() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(self, watcher: impl Fn(Worked) + Send + Sync + 'env) -> Self {
        let Self(mut plan) = self;
        plan.watcher = Some(Box::new(watcher));
        Self(plan)
    }

    /// Runs the pipeline, with a thread for each stage and for each worker of the sink. Blocks
    /// until all threads have ended and all work is done.
    ///
    /// # Forks
    /// A child of `fork` has none of these threads but the one that forked. A child that was forked
    /// inside a closure of the pipeline is ended (`std::process::abort`) when the closure returns:
    /// the closures may borrow from threads that the child lacks. End the child inside the closure.
    ///
    /// # Errors
    /// [`PipelineError`]: the earliest item that failed, and the first stage that failed or
    /// panicked on it. Items that were past that stage have been finished, unless the device is
    /// lost. Later items have been given up.
    pub fn run(self) -> Result<Report, PipelineError> {
        self.0.run()
    }
}

impl<D: Live> std::fmt::Debug for Ready<'_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready")
            .field("stages", &self.0.stages)
            .finish_non_exhaustive()
    }
}
