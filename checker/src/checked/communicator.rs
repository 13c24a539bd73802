//! Collectives followed by the checker.

use std::sync::Arc;

use super::called_at::operation;
use super::{Watch, device};
use cuda_rt_driver::AccessKind::{Read, Write};
use cuda_rt_driver::{CallSite, Collective, Communicator, DriverResult, Number, Part};

/// The file in which a collective seems to have its place if no call of the typed API made it.
pub(super) const FILE: &str = file!();

/// A communicator whose collectives a checker follows. For each rank the checker notes what the
/// rank sends and receives, in the rank's own stream. A rank's receive makes no edge to the other
/// ranks, though some collectives imply one.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) inner: Box<dyn Communicator>,
    pub(super) watch: Arc<Watch>,
}

// SAFETY: every call is passed on unchanged to `inner`, which keeps the contract of `Communicator`.
unsafe impl Communicator for Checked {
    unsafe fn enqueue(
        &self,
        collective: Collective,
        number: Number,
        count: usize,
        parts: &[Part],
    ) -> DriverResult<()> {
        if self.watch.is_off() {
            // SAFETY: this function's contract, passed on with the same arguments.
            return unsafe { self.inner.enqueue(collective, number, count, parts) };
        }
        self.watch.check_denied()?;
        let at = CallSite::here(collective.name());
        let mut made = false;
        let told = self.watch.enter(|monitor| {
            // SAFETY: this function's contract, passed on with the same arguments.
            unsafe { self.inner.enqueue(collective, number, count, parts) }?;
            made = true;
            let operation = operation(at);
            let (send, receive) = collective.lens(count, parts.len());
            self.watch.tell(monitor, |monitor| {
                for (rank, part) in parts.iter().enumerate() {
                    let begun = monitor.begin(part.stream.0);
                    if collective.sends(rank) {
                        monitor.access(begun, device(part.send, send * number.bytes()), Read, operation);
                    }
                    monitor.access(
                        begun,
                        device(part.receive, receive * number.bytes()),
                        Write,
                        operation,
                    );
                }
            });
            Ok(())
        });
        // The collective was enqueued, so an error of the checker must not become its error.
        if made { Ok(()) } else { told }
    }

    fn status(&self) -> DriverResult<()> {
        self.inner.status()
    }

    fn abort(&self) {
        self.inner.abort();
    }
}
