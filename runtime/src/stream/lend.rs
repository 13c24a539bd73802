//! [`Stream::lend`]: lends a view to another stream for one closure.

use crate::device::core::DeviceCore;
use crate::error::{During, Error, Result};
use crate::memory::DeviceSlice;
use crate::order::event_pool::EventPool;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::{Unless, unwound};
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::DriverResult;

/// The end of a loan: makes the owner wait for the borrower when the closure returns or panics.
struct Join<'a> {
    core: &'a DeviceCore,
    owner: StreamRef,
    borrower: StreamRef,
    joined: bool,
}

impl Join<'_> {
    fn join(&mut self) -> DriverResult<()> {
        self.joined = true;
        // A panic below leaves the owner unordered: the device then takes no more work.
        let unordered = Unless::new(self.core, |core| {
            core.set_sticky_error(unwound("cuStreamWaitEvent"));
        });
        let result = EventPool::record(self.core.events(), self.borrower, false)
            .and_then(|lease| lease.wait_on(self.owner));
        if let Err(error) = &result {
            // The owner must not go on unordered. A wait of the host orders too. If that wait fails
            // as well, nothing more may be enqueued on this device.
            // SAFETY: CORE-1: the core keeps the stream live.
            let waited = !self.core.is_graph()
                && unsafe { self.core.driver().synchronize_stream(self.borrower.raw) }.is_ok();
            if !waited {
                self.core.set_sticky_error(error.clone());
            }
        }
        unordered.take_back();
        result
    }
}

impl Drop for Join<'_> {
    fn drop(&mut self) {
        if !self.joined {
            // The core remembers an error.
            let _ = self.join();
        }
    }
}

impl<S: StreamTag> Stream<S> {
    /// Lends a view to the stream `to` for `body`. Before `body`, `to` waits for this stream's
    /// work; after it, this stream waits for the work that `body` enqueued on `to`. The cost is two
    /// events and two waits (`cuEventRecord`, `cuStreamWaitEvent`). Stream-ordered. Works inside a
    /// capture too.
    ///
    /// # Errors
    /// [`Error::Driver`] if a wait cannot be enqueued. If the wait at the end fails, the host waits
    /// instead. If that fails too, the device takes no more work.
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
        // SAFETY: SLICE-1 and SLICE-2 hold for `B` while `body` runs. `B` waits for this stream
        // now, and this stream waits for `B` when `join` is dropped. The unique borrow of `view`
        // excludes every other use.
        let lent = unsafe { DeviceSlice::from_raw_mut(view.address(), view.len()) };
        let output = body(lent);
        if let Err(source) = join.join() {
            // If neither the GPU nor the host could wait, every later call fails too.
            self.core().check().during(DURING)?;
            return Err(Error::Driver {
                during: DURING,
                source,
            });
        }
        Ok(output)
    }
}
