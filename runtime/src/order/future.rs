//! Waits for a handoff that block no thread of the program: [`HandoffFuture`], and closures.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::{During, Error, Result};
use crate::memory::Bundle;
use crate::order::completion::{Done, DoneScope, Watch};
use crate::order::fence::Fence;
use crate::order::handoff::Handoff;
use crate::tag::Live;
use cuda_rt_driver::{CallSite, DriverResult};

/// The future of a [`Handoff`]. It yields the bundle, idle, once all work that uses the bundle is
/// over.
///
/// `.await` on the handoff makes the future, which runs under any executor. One thread for each
/// device queries the events of all pending futures (`cuEventQuery`) and wakes their tasks, also
/// after the device was lost. Thousands of futures may be in flight.
///
/// Dropping the future frees the bundle once its fence is over, and does not block, like dropping
/// the handoff. Leaking the future leaks the memory and does no other harm
/// ([H27](crate::hazards#h27)). To stop waiting and keep the bundle, take the handoff
/// [back](Self::into_handoff).
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use std::future::IntoFuture;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let pending = compute.release(compute.alloc_zeroed::<f32>(64)?)?;
/// let future = pending.into_future(); // `pending.await` makes it too
/// println!("done: {}", future.is_done()?);
/// // Before it is polled, it is the same handoff, for a stream.
/// let data = compute.acquire(future.into_handoff().expect("it was not polled"))?;
/// assert_eq!(data.len(), 64);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[must_use = "futures do nothing unless polled; dropping this one frees what the handoff carries"]
pub struct HandoffFuture<R: Bundle> {
    /// `None` once the future was ready.
    handoff: Option<Handoff<R>>,
    /// The state shared with the completion thread, once a first poll found the handoff pending.
    watch: Option<Arc<Watch>>,
}

// No field is pinned: the handoff is moved out when it is done.
impl<R: Bundle> Unpin for HandoffFuture<R> {}

impl<R: Bundle> fmt::Debug for HandoffFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoffFuture")
            .field("handoff", &self.handoff)
            .finish_non_exhaustive()
    }
}

impl<R: Bundle> HandoffFuture<R> {
    /// Stops waiting and returns the handoff, pending as before. `None` if the future has been
    /// ready.
    pub fn into_handoff(self) -> Option<Handoff<R>> {
        self.handoff
    }

    /// As [`Handoff::is_done`]: asks the driver (`cuEventQuery`), does not block, wakes no task and
    /// changes nothing. A future that has been ready says `true`.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn is_done(&self) -> Result<bool>
    where
        R::Device: Live,
    {
        match &self.handoff {
            Some(handoff) => handoff.fence().query().during("HandoffFuture::is_done"),
            None => Ok(true),
        }
    }
}

impl<R: Bundle> HandoffFuture<R>
where
    R::Device: Live,
{
    fn poll_fence(&mut self, cx: &Context<'_>) -> Poll<Result<()>> {
        const DURING: &str = "Handoff::await";
        if let Some(watch) = &self.watch {
            return match watch.poll(cx.waker()) {
                Ok(poll) => poll.map(|outcome| outcome.during(DURING)),
                Err(source) => Poll::Ready(Err(no_thread("Handoff::await", source))),
            };
        }
        let handoff = self.handoff.as_mut().expect("polled again after it was ready");
        match handoff.fence().query().during(DURING) {
            Ok(true) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
            Ok(false) => {
                let watch = Watch::new(cx.waker().clone());
                let done = Done::Wake(Arc::clone(&watch));
                match handoff.share_fence().watch(done) {
                    Ok(()) => {
                        self.watch = Some(watch);
                        Poll::Pending
                    }
                    Err(source) => Poll::Ready(Err(no_thread("Handoff::await", source))),
                }
            }
        }
    }
}

impl<R: Bundle> Future for HandoffFuture<R>
where
    R::Device: Live,
{
    type Output = Result<R>;

    /// # Panics
    /// If the future has been ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        let this = self.get_mut();
        let Poll::Ready(outcome) = this.poll_fence(cx) else {
            return Poll::Pending;
        };
        this.watch = None;
        let handoff = this.handoff.take().expect("polled again after it was ready");
        // HANDOFF-1: every use is over. After an error it is not, and the handoff is dropped.
        Poll::Ready(outcome.map(|()| handoff.settled(CallSite::here("Handoff::await"))))
    }
}

impl<R: Bundle> IntoFuture for Handoff<R>
where
    R::Device: Live,
{
    type Output = Result<R>;
    type IntoFuture = HandoffFuture<R>;

    /// Waits in a task, as [`synchronize`](Handoff::synchronize) waits on a thread (`cuEventQuery`
    /// from the device's completion thread).
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H14](crate::hazards#h14), [H16](crate::hazards#h16),
    /// [H18](crate::hazards#h18), [H27](crate::hazards#h27).
    ///
    /// # Errors
    /// [`Error::Driver`]. A failed wait is not a finished wait: the bundle is freed behind its
    /// fence if possible, and leaked after a sticky error. [`Error::HostThread`] if the completion
    /// thread could not be started, or the process was forked from the thread's process.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         let mut context = Context::from_waker(Waker::noop());
    /// #         if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
    /// #             return output;
    /// #         }
    /// #     }
    /// # }
    /// # block_on(async {
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let frame = compute.alloc_zeroed::<f32>(1024)?;
    /// let frame = compute.release(frame)?.await?; // DeviceBuffer<f32>, idle
    /// # Ok::<(), cuda_rt::Error>(())
    /// # })?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    fn into_future(self) -> HandoffFuture<R> {
        HandoffFuture {
            handoff: Some(self),
            watch: None,
        }
    }
}

impl<R: Bundle> Handoff<R> {
    /// Runs `body` with the bundle, idle, once all work that uses it is over. If the wait fails,
    /// `body` gets the error. Does not block.
    ///
    /// This is no CUDA callback (`cuLaunchHostFunc`). `body` runs on the device's thread for
    /// closures, after its events were seen done, and may call anything, also this library
    /// ([H44](crate::hazards#h44)). Closures run one after another, so a slow closure delays the
    /// others, but no future. A panic in `body` reaches the panic hook, and goes no further. A
    /// handoff of an [idle bundle](Handoff::ready) needs no wait: its closure runs on this thread,
    /// before the call returns.
    ///
    /// Closures that are still waiting when the process ends do not run.
    ///
    /// `R` is `'static`, so a bundle of a [scoped](crate::Scoped) device has no `on_done`.
    /// Counterexample: `R` may hold elements that borrow (`PinnedBuffer<&str>`, made with
    /// `unsafe`). The closure outlives this call, so the host would read such elements after the
    /// borrowed value is gone. For a scoped device, and for a closure that borrows, there is
    /// [`on_done_in`](Self::on_done_in), whose scope waits for the closure. `.await` demands
    /// nothing of `R` either.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H16](crate::hazards#h16), [H18](crate::hazards#h18), and
    /// [H26](crate::hazards#h26): `body` is `'static`, so it borrows nothing that could end before
    /// it.
    ///
    /// # Errors
    /// [`Error::HostThread`] if a thread could not be started, or the process was forked from the
    /// thread's process. `body` is then dropped, and the bundle is freed behind its fence.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Download; }
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let download = gpu.stream::<Download>()?;
    /// let frame = download.alloc_zeroed::<f32>(1024)?;
    /// let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    /// download.copy_to_host(&frame, &mut host)?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// download.release(host)?.on_done(move |host| {
    ///     let sum = host.map(|host| host.iter().sum::<f32>());
    ///     sender.send(sum).expect("the other end waits");
    /// })?;
    /// assert_eq!(receiver.recv().expect("it ran")?, 0.0);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn on_done(self, body: impl FnOnce(Result<R>) + Send + 'static) -> Result<()>
    where
        R: Send + 'static,
        R::Device: Live,
    {
        match self.with_fence() {
            Err(settled) => body(settled),
            Ok((handoff, mut fence)) => {
                const CALL: &str = "Handoff::on_done";
                let run = handoff.settling(CALL, body);
                fence
                    .watch_closure(run)
                    .map_err(|source| no_thread(CALL, source))?;
            }
        }
        Ok(())
    }

    /// As [`on_done`](Self::on_done), for a closure and a bundle that may borrow:
    /// [`done_scope`](crate::done_scope), which made `scope`, waits for the closure. Does not
    /// block.
    ///
    /// This is the `on_done` of a [scoped](crate::Scoped) device. The page of `done_scope` has an
    /// example that runs.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H16](crate::hazards#h16), [H18](crate::hazards#h18), and
    /// [H26](crate::hazards#h26): what `body` and `R` borrow lives longer than the scope.
    ///
    /// # Errors
    /// As for `on_done`; also in a process that was forked from the scope's process.
    pub fn on_done_in<'scope>(
        self,
        scope: &'scope DoneScope<'scope, '_>,
        body: impl FnOnce(Result<R>) + Send + 'scope,
    ) -> Result<()>
    where
        R: Send + 'scope,
        R::Device: Live,
    {
        match self.with_fence() {
            Err(settled) => body(settled),
            Ok((handoff, mut fence)) => {
                const CALL: &str = "Handoff::on_done_in";
                let run = handoff.settling(CALL, body);
                let run = scope.body(run).map_err(|source| no_thread(CALL, source))?;
                fence
                    .watch_closure(run)
                    .map_err(|source| no_thread(CALL, source))?;
            }
        }
        Ok(())
    }
}

impl<R: Bundle> Handoff<R>
where
    R::Device: Live,
{
    /// The handoff and a second holder of its fence, because the handoff moves into a closure. If
    /// the fence has no events, the settled bundle or the error.
    fn with_fence(mut self) -> std::result::Result<(Self, Fence), Result<R>> {
        let fence = self.share_fence();
        if fence.completion().is_none() {
            return Err(self.synchronize());
        }
        Ok((self, fence))
    }

    /// Calls `body` with the bundle or the error, once the outcome of the wait is known.
    fn settling<F: FnOnce(Result<R>)>(
        self,
        call: &'static str,
        body: F,
    ) -> impl FnOnce(DriverResult<()>) + use<R, F> {
        move |outcome| {
            let outcome = outcome.during(call);
            // HANDOFF-1: every use is over. After an error it is not, and the handoff is dropped.
            body(outcome.map(|()| self.settled(CallSite::here(call))));
        }
    }
}

fn no_thread(during: &'static str, source: io::Error) -> Error {
    Error::HostThread { during, source }
}
