//! Updates a graph to the calls of a dry run, node by node.

use std::ffi::c_void;

use super::CaptureLog;
use super::changes::{Changes, Difference};
use super::entries::{Entries, Launch};
use cuda_rt_driver::{DriverError, DriverResult, RawGraph};

/// The state of a graph after [`CaptureLog::apply`] of a dry run.
pub(crate) enum DryRun {
    /// The graph replays the calls of the dry run.
    Done,
    /// The graph is unchanged: the update needs a capture.
    NeedsCapture,
}

/// The reason why a graph does not replay the calls of the dry run.
pub(crate) enum Unchanged {
    /// The dry run is no update of the graph.
    Differs(Difference),
    /// A call failed. `half_made` if the old contents could not be restored: the graph is then
    /// partly changed.
    Failed { error: DriverError, half_made: bool },
}

impl CaptureLog {
    /// Updates the graph to the calls of the dry run, if only launches changed. If a call fails,
    /// restores the graph.
    ///
    /// # Safety
    /// `graph` was made from the capture that this log holds. It is live, and no other thread uses
    /// it now. `rehearsed` comes from a dry run of this log. At every later replay the memory that
    /// its launches name is live, and in conflict with no unordered access. The same holds for the
    /// memory of the launches that they replace.
    pub(crate) unsafe fn apply(&self, graph: RawGraph, mut rehearsed: Entries) -> Result<DryRun, Unchanged> {
        let mut state = self.lock();
        let captured = &state.captured;
        // A dry run ends at a foreign call, which it cannot make.
        let foreign = rehearsed.foreign();
        let changes = match foreign {
            Some(_) => Changes::default(),
            None => captured.changes(&rehearsed).map_err(Unchanged::Differs)?,
        };
        if let Some(place) = foreign.or(changes.capture) {
            if !captured.allocates() {
                return Ok(DryRun::NeedsCapture);
            }
            let why = format!(
                "is {} that may have changed, and in a graph that allocates only launches can",
                rehearsed.0[place]
            );
            let operation = rehearsed.operation(place);
            return Err(Unchanged::Differs(Difference { operation, why }));
        }
        for (done, &place) in changes.launches.iter().enumerate() {
            // SAFETY: this function's contract covers the call.
            let set = unsafe { self.set(graph, captured, place, &rehearsed) };
            if let Err(error) = set {
                // Restores the failed launch too: CUDA does not promise that a failed call changes
                // nothing.
                let mut back = changes.launches[..=done].iter();
                // SAFETY: as above.
                let half_made =
                    !back.all(|&place| unsafe { self.set(graph, captured, place, captured) }.is_ok());
                return Err(Unchanged::Failed { error, half_made });
            }
        }
        rehearsed.take_nodes(captured);
        state.captured = rehearsed;
        Ok(DryRun::Done)
    }

    /// Gives the node of one launch its arguments from `from`.
    ///
    /// # Safety
    /// As for [`apply`](Self::apply), for that launch.
    unsafe fn set(
        &self,
        graph: RawGraph,
        captured: &Entries,
        place: usize,
        from: &Entries,
    ) -> DriverResult<()> {
        let (Some(Launch { node: Some(node), .. }), Some(new)) = (captured.launch(place), from.launch(place))
        else {
            unreachable!("a change of a launch whose node is known");
        };
        let values: Vec<*const c_void> = new.parameters.values().map(|(value, _)| value).collect();
        // SAFETY: graph and memory satisfy the call's demands by this function's contract. `values`
        // has one pointer for each parameter, to a live value.
        unsafe {
            self.inner
                .set_launch(graph, *node, new.parameters.kernel(), &new.shape, &values)
        }
    }
}
