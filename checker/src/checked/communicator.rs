//! Collectives that the checker follows.

use std::sync::Arc;

use super::called_at::operation;
use super::{Watch, device};
use cuda_rt_driver::AccessKind::{Read, Write};
use cuda_rt_driver::{CallSite, Collective, Communicator, DriverResult, Number, Part};

/// Where a collective seems to come from that no call of the typed API made.
pub(super) const FILE: &str = file!();

/// A communicator whose every collective a checker follows: of each rank what it sends and what it
/// receives, in its own stream. That a rank has received says nothing to the checker of the others,
/// though some collectives imply it.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) inner: Box<dyn Communicator>,
    pub(super) watch: Arc<Watch>,
}

// SAFETY: as `inner`, to which every call is passed on as it is.
unsafe impl Communicator for Checked {
    unsafe fn enqueue(
        &self,
        collective: Collective,
        number: Number,
        count: usize,
        parts: &[Part],
    ) -> DriverResult<()> {
        if self.watch.is_off() {
            // SAFETY: the caller's.
            return unsafe { self.inner.enqueue(collective, number, count, parts) };
        }
        self.watch.check_denied()?;
        let at = CallSite::here(collective.name());
        let mut made = false;
        let told = self.watch.enter(|monitor| {
            // SAFETY: the caller's.
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
        // What was enqueued does not fail: an error says that nothing was.
        if made { Ok(()) } else { told }
    }

    fn status(&self) -> DriverResult<()> {
        self.inner.status()
    }

    fn abort(&self) {
        self.inner.abort();
    }
}
