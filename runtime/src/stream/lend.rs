//! Lending a view to another stream for a closure.

use crate::device::core::DeviceCore;
use crate::error::{During, Error, Result};
use crate::memory::DeviceSlice;
use crate::order::event_pool::EventPool;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::{Unless, unwound};
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::DriverResult;

/// Makes the owner wait for the borrower when the closure is left, also by a panic.
struct Join<'a> {
    core: &'a DeviceCore,
    owner: StreamRef,
    borrower: StreamRef,
    joined: bool,
}

impl Join<'_> {
    fn join(&mut self) -> DriverResult<()> {
        self.joined = true;
        // Unless the owner waits on the GPU, or the host has waited.
        let unordered = Unless::new(self.core, |core| core.break_with(unwound("cuStreamWaitEvent")));
        let result = EventPool::record(self.core.events(), self.borrower, false)
            .and_then(|lease| lease.wait_on(self.owner));
        if let Err(error) = &result {
            // The owner must not go on unordered. Waiting on the host orders as well; where that
            // fails too, nothing more may be enqueued on this device.
            // SAFETY: the core keeps the stream.
            let waited = !self.core.is_graph()
                && unsafe { self.core.driver().synchronize_stream(self.borrower.raw) }.is_ok();
            if !waited {
                self.core.break_with(error.clone());
            }
        }
        unordered.take_back();
        result
    }
}

impl Drop for Join<'_> {
    fn drop(&mut self) {
        if !self.joined {
            // An error is remembered by the core.
            let _ = self.join();
        }
    }
}

impl<S: StreamTag> Stream<S> {
    /// Lends a view to the stream `to` for `body`: `to` waits for this stream's work, and this
    /// stream for what `body` gives to `to` (two events, two waits). Stream-ordered. Works inside a
    /// capture too.
    ///
    /// # Errors
    /// [`Error::Driver`] if a wait cannot be enqueued. If it is the one at the end, the host has
    /// waited instead; if that failed too the device takes no more work.
    pub fn lend<T, B: StreamTag<Device = S::Device>, O>(
        &self,
        to: &Stream<B>,
        view: &mut DeviceSlice<T, S>,
        body: impl FnOnce(&mut DeviceSlice<T, B>) -> O,
    ) -> Result<O> {
        const DURING: &str = "Stream::lend";
        self.record(DURING)?.wait_on(to.at()).during(DURING)?;
        let mut join = Join {
            core: self.core(),
            owner: self.at(),
            borrower: to.at(),
            joined: false,
        };
        // SAFETY: SLICE-1 and SLICE-2 hold for `B` while `body` runs: it waits for this stream,
        // which waits for it when `join` is dropped; the unique borrow keeps every other use away.
        let lent = unsafe { DeviceSlice::from_raw_mut(view.address(), view.len()) };
        let output = body(lent);
        if let Err(source) = join.join() {
            // Where neither the GPU nor the host could wait, every later call fails too.
            self.core().check().during(DURING)?;
            return Err(Error::Driver {
                during: DURING,
                source,
            });
        }
        Ok(output)
    }
}
