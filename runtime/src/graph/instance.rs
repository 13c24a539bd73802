//! The instantiated graph, and its updates.

use super::capture::Site;
use super::captured::Captured;
use super::held::Held;
use crate::error::{During, Error, Result};
use crate::graph::capture_log::{Difference, DryRun, Unchanged};
use crate::memory::Bundle;
use crate::order::unless::{Unless, unwound};
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode, RawGraph};

/// An instantiated graph; destroyed on drop.
///
/// # Invariants
/// INSTANCE-1. `raw` is live, and was made from the capture that the tape of `site` noted.
/// INSTANCE-2. Unless `broken`, launches replay the calls that the tape holds.
#[derive(Debug)]
pub(super) struct Instance {
    raw: RawGraph,
    site: Site,
    /// Whether the streams of `site` may be others than those that the graph was captured on, after
    /// an update that failed.
    stale: bool,
    /// Why it may not be launched any more: an update failed half-way, and could not be taken back.
    broken: Option<DriverError>,
}

impl Instance {
    pub(super) fn capture<R: Bundle, S: StreamTag>(
        held: &mut Held<R, S>,
        body: impl for<'g> FnOnce(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
    ) -> Result<Self> {
        const DURING: &str = "Stream::capture";
        let site = Site::new(held.stream()).during(DURING)?;
        let raw = site.capture(held, body, DURING, |recording, entries| {
            let raw = recording.end().during(DURING)?;
            site.tape().captured(entries);
            Ok(raw)
        })?;
        Ok(Self {
            raw,
            site,
            stale: false,
            broken: None,
        })
    }

    pub(super) fn raw(&self) -> DriverResult<RawGraph> {
        match &self.broken {
            None => Ok(self.raw),
            Some(error) => Err(error.clone()),
        }
    }

    /// Makes later launches replay what `body` does with `held`. On an error they replay what they
    /// did, or nothing ever.
    pub(super) fn update<R: Bundle, S: StreamTag>(
        &mut self,
        held: &mut Held<R, S>,
        body: &impl for<'g> Fn(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
        during: &'static str,
    ) -> Result<()> {
        self.raw().during(during)?;
        if std::mem::replace(&mut self.stale, true) {
            let site = Site::new(held.stream()).during(during)?;
            site.tape().continue_from(self.site.tape());
            self.site = site;
        }
        let (rehearsed, done) = self.site.dry_run(held, body);
        if !rehearsed.calls_foreign() {
            done?;
        }
        // Changed by halves unless the calls that change it return.
        let broken = Unless::new(&mut self.broken, |broken| {
            *broken = Some(unwound("cuGraphExecKernelNodeSetParams"));
        });
        // SAFETY: INSTANCE-1; `&mut self`. What the launches name belongs to the bundle of `held`
        // or to the graph, and so does what they replace to the bundle that it had; either is the
        // graph's while it is launched.
        let applied = unsafe { self.site.tape().apply(self.raw, rehearsed) };
        broken.take_back();
        match applied {
            Ok(DryRun::Done) => {}
            Ok(DryRun::NeedsCapture) => self.capture_again(held, body, during)?,
            Err(Unchanged::Differs(difference)) => return Err(not_an_update(difference, during)),
            Err(Unchanged::Failed { error, broken }) => {
                self.broken = broken.then(|| error.clone());
                return Err(error).during(during);
            }
        }
        self.stale = false;
        Ok(())
    }

    fn capture_again<R: Bundle, S: StreamTag>(
        &mut self,
        held: &mut Held<R, S>,
        body: &impl for<'g> Fn(&'g Stream<Captured<'g, S>>, R::View<'g, Captured<'g, S>>) -> Result<()>,
        during: &'static str,
    ) -> Result<()> {
        let (tape, raw, broken) = (self.site.tape(), self.raw, &mut self.broken);
        self.site.capture(held, body, during, |recording, entries| {
            tape.compare(&entries)
                .map_err(|difference| not_an_update(difference, during))?;
            let broken = Unless::new(broken, |broken| *broken = Some(unwound("cuGraphExecUpdate")));
            // SAFETY: INSTANCE-1; the calls are the same, as was just compared, and allocate
            // nothing, which `apply` looked at. `&mut self` of the caller.
            let updated = unsafe { recording.update(raw) };
            *broken.take_back() = updated.clone().err().filter(may_be_half_made);
            updated.during(during)?;
            tape.updated(entries);
            Ok(())
        })
    }
}

/// Whether an update may have changed some nodes before it failed. CUDA says that it was not made
/// for one error only. Which call gave the error does not matter: a driver in between, as the
/// checker, has errors of its own.
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
        // SAFETY: INSTANCE-1; launches that are pending still run. An error leaks the graph.
        let _ = unsafe { self.site.core().driver().destroy_graph(self.raw) };
    }
}
