//! [`Stream::lend`], [`Stream::lend_ref`] and [`Stream::lend_all`]: lend views to another stream
//! for one closure.
//!
//! ```text
//!   owner    ──work──●───────reads───────────wait──later writes──▶
//!                     ╲ wait              ╱ record
//!   borrower ──────────●──work on the view●──────────────────────▶
//! ```
//!
//! The borrower waits for the owner's earlier work, and the owner's later work waits for the
//! borrower. In between the borrow of the view says what the owner may do: nothing with a view lent
//! for writing, and only read a view lent for reading. So two loans of one view for reading, one
//! inside the other, let two streams and the owner read it at once.

use crate::device::core::DeviceCore;
use crate::error::{During, Error, Result};
use crate::memory::{DeviceSlice, Loan};
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
    /// Makes the owner wait for the borrower, on the GPU, or else by a wait of the host. Returns an
    /// error if neither could be done: nothing more may then be enqueued on this device.
    fn join(&mut self) -> DriverResult<()> {
        self.joined = true;
        // A panic below leaves the owner unordered: the device then takes no more work.
        let unordered = Unless::new(self.core, |core| {
            core.set_sticky_error(unwound("cuStreamWaitEvent"));
        });
        let result = EventPool::record(self.core.events(), self.borrower, false)
            .and_then(|lease| lease.wait_on(self.owner))
            .or_else(|error| {
                // The owner must not go on unordered. A wait of the host orders too. If that wait
                // fails as well, nothing more may be enqueued on this device.
                let waited = !self.core.is_graph() && self.core.wait_for_stream(self.borrower).is_ok();
                if waited {
                    return Ok(());
                }
                self.core.set_sticky_error(error.clone());
                Err(error)
            });
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

/// Runs `body` between the waits of a loan by `owner` to `borrower`, two streams of `core`. A
/// stream runs its own work in order: a loan to the owner itself needs no wait.
pub(super) fn during_a_loan<O>(
    core: &DeviceCore,
    owner: StreamRef,
    borrower: StreamRef,
    during: &'static str,
    body: impl FnOnce() -> O,
) -> Result<O> {
    if owner.id() == borrower.id() {
        return Ok(body());
    }
    core.check().during(during)?;
    let lease = EventPool::record(core.events(), owner, false).during(during)?;
    lease.wait_on(borrower).during(during)?;
    // From here on only the borrower's work is pending: the event can serve again.
    drop(lease);
    let mut join = Join {
        core,
        owner,
        borrower,
        joined: false,
    };
    let output = body();
    if let Err(source) = join.join() {
        // Every later call fails too, with this error.
        core.check().during(during)?;
        return Err(Error::Driver { during, source });
    }
    Ok(output)
}

impl<S: StreamTag> Stream<S> {
    fn during_a_loan<B: StreamTag<Device = S::Device>, O>(
        &self,
        to: &Stream<B>,
        during: &'static str,
        body: impl FnOnce() -> O,
    ) -> Result<O> {
        during_a_loan(self.core(), self.at(), to.at(), during, body)
    }

    /// Lends a view to the stream `to` for `body`. Before `body`, `to` waits for this stream's
    /// work; after it, this stream waits for the work that `body` enqueued on `to`. The cost is two
    /// events and two waits (`cuEventRecord`, `cuStreamWaitEvent`). Stream-ordered. Works inside a
    /// capture too.
    ///
    /// If the wait at the end cannot be enqueued, the host waits for `to` instead, and the call
    /// succeeds as usual. So an error says whether `body` has run: a program may repeat a call that
    /// returned [`Error::Driver`].
    ///
    /// # Errors
    /// - [`Error::Driver`] if the wait before `body` cannot be enqueued. `body` has not run.
    /// - [`Error::Unordered`] if neither the wait at the end nor the wait of the host was possible.
    ///   `body` has run, and its result is dropped. The device takes no more work: later calls
    ///   return this error too, and run nothing.
    ///
    /// In a capture the host cannot wait. If the wait at the end cannot be enqueued there,
    /// [`Error::Driver`] comes after `body` has run, and the capture fails too.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Owner; pub Helper; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let (owner, helper) = (gpu.stream::<Owner>()?, gpu.stream::<Helper>()?);
    /// let mut data = owner.alloc_zeroed::<u32>(6)?;
    /// let (left, right) = data.split_at_mut(3);
    /// // `helper` fills one half, and waits for `owner` before; `owner` fills the other half.
    /// owner.lend(&helper, right, |right| helper.fill(right, 2))??;
    /// owner.fill(left, 1)?;
    /// assert_eq!(owner.copy_to_vec(&data)?, [1, 1, 1, 2, 2, 2]); // behind both
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn lend<T, B: StreamTag<Device = S::Device>, O>(
        &self,
        to: &Stream<B>,
        view: &mut DeviceSlice<T, S>,
        body: impl FnOnce(&mut DeviceSlice<T, B>) -> O,
    ) -> Result<O> {
        self.during_a_loan(to, "Stream::lend", || {
            // SAFETY: SLICE-1 and SLICE-2 hold for `B` while `body` runs. `B` waits for this stream
            // now, and this stream waits for `B` at the end of the loan. The unique borrow of
            // `view` excludes every other use.
            body(unsafe { DeviceSlice::from_raw_mut(view.address(), view.len()) })
        })
    }

    /// Lends a view to the stream `to` for reading, for `body`. The waits and the cost are those of
    /// [`lend`](Self::lend). Stream-ordered. Works inside a capture too, also with views of a
    /// [`Constant`](crate::Constant) or a [`Lease`](crate::Lease).
    ///
    /// Meanwhile this stream may read the view too, and lend it for reading to further streams: the
    /// loan borrows the view by `&`. Nothing can write the memory before `body` ends. This stream's
    /// later writes wait for the reads of `to`.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01) (`to` waits for the writer), [H02](crate::hazards#h02) and
    /// [H10](crate::hazards#h10) (a later write waits for every reader), [H08](crate::hazards#h08).
    ///
    /// # Errors
    /// As for [`lend`](Self::lend).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; pub Left; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let (compute, left) = (gpu.stream::<Compute>()?, gpu.stream::<Left>()?);
    /// let mut x = compute.alloc_zeroed::<f32>(1024)?;
    /// let mut here = compute.alloc_zeroed::<f32>(1024)?;
    /// let mut there = left.alloc_zeroed::<f32>(1024)?;
    /// compute.lend_ref(&left, &x, |lent| {
    ///     left.copy(lent, &mut there)?;
    ///     compute.copy(&x, &mut here) // both read `x` at once
    /// })??;
    /// compute.fill(&mut x, 1.0)?; // runs after both
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn lend_ref<T, B: StreamTag<Device = S::Device>, O>(
        &self,
        to: &Stream<B>,
        view: &DeviceSlice<T, S>,
        body: impl FnOnce(&DeviceSlice<T, B>) -> O,
    ) -> Result<O> {
        self.during_a_loan(to, "Stream::lend_ref", || {
            // SAFETY: SLICE-1 holds for `B` while `body` runs. `B` waits for this stream now, and
            // this stream waits for `B` at the end of the loan. The borrow of `view` excludes
            // writes meanwhile.
            body(unsafe { DeviceSlice::from_raw(view.address(), view.len()) })
        })
    }

    /// Lends several views to the stream `to` at once, each for reading (`&`) or for writing
    /// (`&mut`). The cost is that of one [`lend`](Self::lend), however many views there are.
    /// Stream-ordered. Works inside a capture too.
    ///
    /// # Hazards prevented
    /// As for [`lend_ref`](Self::lend_ref), and [H11](crate::hazards#h11).
    ///
    /// # Errors
    /// As for [`lend`](Self::lend).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; pub Left; pub Right; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let buffer = || compute.alloc_zeroed::<f32>(1024);
    /// let bundle = (buffer()?, [buffer()?, buffer()?, buffer()?]);
    /// let mut graph = compute.capture(bundle, |stream, (mut x, [mut q, mut k, mut v])| {
    ///     let (left, right) = (stream.fork::<Left>()?, stream.fork::<Right>()?);
    ///     stream.fill(&mut x, 1.0)?;
    ///     stream.lend_all(&left, (&x, &mut k), |(x_left, mut k)| {
    ///         left.copy(&x_left, &mut k)?;
    ///         stream.lend_all(&right, (&x, &mut v), |(x_right, mut v)| {
    ///             right.copy(&x_right, &mut v)?;
    ///             stream.copy(&x, &mut q) // three branches read `x`
    ///         })?
    ///     })?
    /// })?;
    /// graph.launch(&compute)?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn lend_all<L: Loan<S>, B: StreamTag<Device = S::Device>, O>(
        &self,
        to: &Stream<B>,
        views: L,
        body: impl for<'l> FnOnce(L::On<'l, B>) -> O,
    ) -> Result<O> {
        self.during_a_loan(to, "Stream::lend_all", || {
            // SAFETY: `B` waits for this stream now, and this stream waits for `B` at the end of
            // the loan. The borrows in `views` last as long as `body`, and the lent views are not
            // used after it, because `body` takes them for any lifetime.
            body(unsafe { views.lent() })
        })
    }
}
