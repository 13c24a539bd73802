//! Making a graph replay what the dry run logged, node by node.

use std::ffi::c_void;

use super::CaptureLog;
use super::changes::{Changes, Difference};
use super::entries::{Entries, Launch};
use cuda_rt_driver::{DriverError, DriverResult, RawGraph};

/// What a graph is after a dry run.
pub(crate) enum DryRun {
    /// It replays what the dry run logged.
    Done,
    /// As it was: it takes a capture.
    NeedsCapture,
}

/// Why a graph does not replay what the dry run logged.
pub(crate) enum Unchanged {
    /// It is no update of it.
    Differs(Difference),
    /// A call failed; `broken` where the graph could not be put back, and is now neither one nor
    /// the other.
    Failed { error: DriverError, broken: bool },
}

impl CaptureLog {
    /// Makes the graph replay what the dry run logged, where that takes its launches only; where a
    /// call fails, puts it back.
    ///
    /// # Safety
    /// `graph` was made from the capture that this tape noted, is live, and no other thread uses it
    /// now. `rehearsed` comes from a dry run of this tape, and what its launches name is live and
    /// not in conflict with any unordered access at every later replay, and so is what those name
    /// that they replace.
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
            // SAFETY: the caller's.
            let set = unsafe { self.set(graph, captured, place, &rehearsed) };
            if let Err(error) = set {
                // With the one that failed: that a call which fails changes nothing is written
                // nowhere.
                let mut back = changes.launches[..=done].iter();
                // SAFETY: as above.
                let broken =
                    !back.all(|&place| unsafe { self.set(graph, captured, place, captured) }.is_ok());
                return Err(Unchanged::Failed { error, broken });
            }
        }
        rehearsed.take_nodes(captured);
        state.captured = rehearsed;
        Ok(DryRun::Done)
    }

    /// Gives the node of one launch the arguments that it has in `from`.
    ///
    /// # Safety
    /// As [`apply`](Self::apply), for that launch.
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
        // SAFETY: the caller's; one pointer for each parameter, to a live value.
        unsafe {
            self.inner
                .set_launch(graph, *node, new.parameters.kernel(), &new.shape, &values)
        }
    }
}
