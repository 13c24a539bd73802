//! [`Instance`]: the instantiated graph, and its updates.

use std::sync::Arc;

use super::capture::Site;
use super::captured::Captured;
use super::held::Held;
use super::modules::GraphModules;
use crate::device::core::DeviceCore;
use crate::error::{During, Error, Result};
use crate::graph::capture_log::{Difference, DryRun, Unchanged};
use crate::memory::Bundle;
use crate::order::host_task::HostTask;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::{Unless, unwound};
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode, RawGraph};

/// An instantiated graph. The drop destroys it.
///
/// # Invariants
/// INSTANCE-1. `raw` is live, and was made from the capture that the log of `site` holds.
/// INSTANCE-2. Unless `sticky_error` is set, launches replay the calls that the log holds.
/// INSTANCE-3. A host function that a launch calls is in `host_functions`, until the launch is
/// over. All launches are in the order of the stream `at`.
/// INSTANCE-4. Between an update and the graph's ownership of the bundle that it uses, no driver is
/// called. If a call unwound there, the bundle would be freed, and the next launch would use it.
#[derive(Debug)]
pub(super) struct Instance {
    raw: RawGraph,
    site: Site,
    /// Whether the streams of `site` may differ from the streams of the graph's capture, after a
    /// failed update.
    stale: bool,
    /// The error of an update that failed half-way and could not be undone. Every later launch
    /// returns it.
    sticky_error: Option<DriverError>,
    host_functions: HostFunctions,
    modules: GraphModules,
}

/// The host functions of a graph.
#[derive(Debug)]
struct HostFunctions {
    tasks: Vec<Arc<HostTask>>,
    /// Only launches before an update call these.
    replaced: Vec<Arc<HostTask>>,
    /// The device and the stream of the graph's launches.
    core: Arc<DeviceCore>,
    at: StreamRef,
}

impl HostFunctions {
    /// Replaces the tasks. Makes no driver call (INSTANCE-4).
    fn replace(&mut self, tasks: Vec<Arc<HostTask>>) {
        let old = std::mem::replace(&mut self.tasks, tasks);
        self.replaced.extend(old);
    }

    /// Ends the replaced tasks behind all launches so far: a host function drops them. If it cannot
    /// be enqueued, they are leaked. Does not block.
    fn end_replaced(&mut self) {
        if self.replaced.is_empty() {
            return;
        }
        // INSTANCE-3: a pending launch calls them. An error has leaked them.
        let _ = HostTask::end_all(std::mem::take(&mut self.replaced), |function| {
            // SAFETY: the core keeps the stream live (CORE-1). The function owns the tasks. It
            // neither unwinds nor calls the driver.
            self.at
                .enqueue(|at| unsafe { self.core.driver().launch_host_function(at, function, &[]) })
        });
    }
}

impl Drop for HostFunctions {
    /// Leaks the tasks that nothing ended: a pending launch may call them. Counterexample: the call
    /// that destroys the graph unwinds, so the graph's drop does not come to the end of its tasks.
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.tasks));
        std::mem::forget(std::mem::take(&mut self.replaced));
    }
}

impl Instance {
    pub(super) fn capture<R: Bundle, S: StreamTag>(
        held: &mut Held<R, S>,
        body: impl for<'g> FnOnce(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> Result<Self> {
        const DURING: &str = "Stream::capture";
        let site = Site::new(held.stream()).during(DURING)?;
        let (raw, tasks) = site.capture(held, body, DURING, |recording, entries| {
            let raw = recording.end().during(DURING)?;
            site.log().captured(entries);
            Ok(raw)
        })?;
        let (core, at) = (held.stream().core(), held.stream().at());
        let modules = GraphModules::new(site.core().take_modules(), Arc::clone(core), at);
        Ok(Self {
            raw,
            site,
            modules,
            stale: false,
            sticky_error: None,
            host_functions: HostFunctions {
                tasks,
                replaced: Vec::new(),
                core: Arc::clone(held.stream().core()),
                at: held.stream().at(),
            },
        })
    }

    pub(super) fn raw(&self) -> DriverResult<RawGraph> {
        match &self.sticky_error {
            None => Ok(self.raw),
            Some(error) => Err(error.clone()),
        }
    }

    /// Makes later launches replay the calls that `body` makes with `held`. On an error the graph
    /// keeps its previous contents. If they cannot be restored, every later launch fails. On
    /// success the graph takes the bundle of `held`, and then calls
    /// [`end_replaced`](Self::end_replaced).
    pub(super) fn update<R: Bundle, S: StreamTag>(
        &mut self,
        held: &mut Held<R, S>,
        body: &impl for<'g> Fn(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
        during: &'static str,
    ) -> Result<()> {
        self.raw().during(during)?;
        let is_stale = std::mem::replace(&mut self.stale, true);
        if is_stale || !self.site.is_for::<S>() {
            let site = Site::new(held.stream()).during(during)?;
            site.log().continue_from(self.site.log());
            self.site = site;
        }
        let (rehearsed, done) = self.site.dry_run(held, body);
        if !rehearsed.calls_foreign() {
            done?;
        }
        // If a call below unwinds, the graph may be partly changed.
        let sticky_error = Unless::new(&mut self.sticky_error, |sticky_error| {
            *sticky_error = Some(unwound("cuGraphExecKernelNodeSetParams"));
        });
        // SAFETY: INSTANCE-1: the graph is live and from this log's capture. `&mut self` excludes
        // other threads. The memory of the new launches belongs to the bundle of `held` or to the
        // graph, and the memory of the replaced launches to the graph's previous bundle. The graph
        // owns the bundle that its launches use.
        let applied = unsafe { self.site.log().apply(self.raw, rehearsed) };
        sticky_error.take_back();
        match applied {
            Ok(DryRun::Done) => {}
            Ok(DryRun::NeedsCapture) => self.capture_again(held, body, during)?,
            Err(Unchanged::Differs(difference)) => return Err(not_an_update(difference, during)),
            Err(Unchanged::Failed { error, half_made }) => {
                self.sticky_error = half_made.then(|| error.clone());
                return Err(error).during(during);
            }
        }
        self.stale = false;
        Ok(())
    }

    /// Ends the host functions that no later launch calls, once the graph owns the bundle that its
    /// launches use (INSTANCE-4).
    pub(super) fn end_replaced(&mut self) {
        self.host_functions.end_replaced();
        self.modules.end_replaced();
    }

    fn capture_again<R: Bundle, S: StreamTag>(
        &mut self,
        held: &mut Held<R, S>,
        body: &impl for<'g> Fn(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
        during: &'static str,
    ) -> Result<()> {
        let (log, raw, sticky_error) = (self.site.log(), self.raw, &mut self.sticky_error);
        let ((), tasks) = self.site.capture(held, body, during, |recording, entries| {
            log.compare(&entries)
                .map_err(|difference| not_an_update(difference, during))?;
            let sticky_error = Unless::new(sticky_error, |sticky_error| {
                *sticky_error = Some(unwound("cuGraphExecUpdate"));
            });
            // SAFETY: INSTANCE-1: the graph is live. The comparison above found the same calls, and
            // `apply` found that they allocate nothing. `&mut self` excludes other threads.
            let updated = unsafe { recording.update(raw) };
            *sticky_error.take_back() = updated.clone().err().filter(may_be_half_made);
            updated.during(during)?;
            log.updated(entries);
            Ok(())
        })?;
        self.modules.replace(self.site.core().take_modules());
        self.host_functions.replace(tasks);
        Ok(())
    }
}

/// Whether an update may have changed some nodes before it failed. For only one error CUDA says
/// that nothing was changed. The call that returned the error does not matter: a driver in between,
/// like the checker, has errors of its own.
fn may_be_half_made(error: &DriverError) -> bool {
    error.code() != ErrorCode::GRAPH_EXEC_UPDATE_FAILURE
}

fn not_an_update(Difference { operation, why }: Difference, during: &'static str) -> Error {
    Error::NotAnUpdate {
        during,
        operation,
        why,
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: INSTANCE-1: the graph is live. Pending launches still run. An error leaks the
        // graph.
        let _ = unsafe { self.site.core().driver().destroy_graph(self.raw) };
        self.host_functions.replace(Vec::new());
        self.modules.replace(Vec::new());
        self.host_functions.end_replaced();
        self.modules.end_replaced();
    }
}
