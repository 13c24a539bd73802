//! [`Stream::host_fn`]: a closure that runs on the host, in the order of the stream.

use std::panic::Location;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::memory::HostArguments;
use crate::order::host_task::HostTask;
use crate::stream::Stream;
use crate::tag::StreamTag;

impl<S: StreamTag> Stream<S> {
    /// Runs `body` on the host, after the earlier work of this stream and before its later work
    /// (`cuLaunchHostFunc`). Stream-ordered: no thread of the program waits. Waits for the stream,
    /// handoffs and events recorded later cover the function.
    ///
    /// `memory` is pinned memory that this stream owns: `&` or `&mut` of a
    /// [`PinnedBuffer`](crate::PinnedBuffer), of a part or of a view; or a tuple of up to four of
    /// these; or `()`. The closure gets it as `&[T]` or `&mut [T]`. This call borrows the memory
    /// only until it returns, because later work of the stream runs after the closure. If the
    /// buffer is dropped, its block is reused only after the closure has run. All other data belong
    /// to the closure: it is `Send + 'static`.
    ///
    /// # In the closure
    ///
    /// - **CUDA permits no call there.** A call of this crate from the closure returns
    ///   `CUDA_ERROR_NOT_PERMITTED`, on every backend, and a device buffer or handoff that is
    ///   dropped there is leaked. CUDA does not promise an error for calls of other libraries.
    /// - It must not wait for work of a device that is not ordered before it, nor for a thread that
    ///   does. CUDA may run all host functions one after another: a slow one delays the others.
    /// - To call CUDA behind a stream's work, use [`Handoff::on_done`](crate::Handoff::on_done),
    ///   whose closure runs on a thread of this crate.
    ///
    /// The closure is called once, or at each launch of a graph, but it is no `FnOnce`: an `FnOnce`
    /// would drop its captures during the call. The closure and its captures are dropped
    /// afterwards, on the device's thread for closures, where a destructor may call CUDA.
    ///
    /// A closure that **panics** loses the device, as a kernel that panics does: every later call
    /// fails, with the place of the call and the panic's message, and no wait for this device ends
    /// with data that the closure left half-written. If the device is lost before, or the process
    /// ends, the closure may never run; it is then leaked.
    ///
    /// # In a capture
    ///
    /// The closure becomes a node of the graph, and runs at each launch; two launches of one graph
    /// never overlap. The graph owns the closure. [`Graph::update`](crate::Graph::update) replaces
    /// it, behind the pending launches; it cannot compare closures, so it always captures again.
    ///
    /// # Cost
    ///
    /// No timeline shows the function, because it occupies no engine of the device. CUDA runs the
    /// function on a thread of its own, which it wakes, and resumes the stream afterwards. The
    /// alternative is a thread of the program that waits for an event, and a later wait of the
    /// stream for a word of memory which that thread writes (`cuStreamWaitValue32`). It permits
    /// CUDA calls, and a thread that polls may react sooner. It was not chosen: not every device
    /// supports such waits, and a thread that ends, or does not exist in a forked child, leaves the
    /// stream waiting for ever.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H14](crate::hazards#h14), [H16](crate::hazards#h16) and
    /// [H18](crate::hazards#h18) for `memory`; [H26](crate::hazards#h26): the closure borrows
    /// nothing that could end before it runs; [H44](crate::hazards#h44): a CUDA call in the closure
    /// is an error.
    ///
    /// # Errors
    /// [`Error::Driver`]; [`Error::HostThread`] if the thread for closures could not be started, or
    /// the process was forked from that thread's process. The closure then never runs, and is
    /// dropped on that thread if it exists.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    /// let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    /// // GPU, CPU, GPU: this thread enqueues all of it, and waits once.
    /// compute.fill(&mut frame, 2.0)?;
    /// compute.copy_to_host(&frame, &mut host)?;
    /// compute.host_fn(&mut host, |values| {
    ///     for (i, value) in values.iter_mut().enumerate() {
    ///         *value *= i as f32;
    ///     }
    /// })?;
    /// compute.copy_to_device(&host, &mut frame)?;
    /// let host = compute.release(host)?.synchronize()?;
    /// assert_eq!(host[3], 6.0);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn host_fn<A: HostArguments<S>>(
        &self,
        memory: A,
        mut body: impl for<'h> FnMut(A::Host<'h>) + Send + 'static,
    ) -> Result<()> {
        let call = self.call("Stream::host_fn");
        let at = Location::caller();
        // Refused before anything is made.
        call.driver()?;
        let closures = self.core().completion().closures();
        // Started here, because a host function should start no thread.
        let no_thread = |source| Error::HostThread {
            during: call.name(),
            source,
        };
        drop(closures.sender().map_err(no_thread)?);
        let mut uses = Vec::new();
        let raw = memory.raw(&mut uses);
        let run = move || {
            // SAFETY: the memory is of this stream, was borrowed for the call that enqueued this
            // closure, and is used in the stream's order: PINNED-3 and, in a capture, GRAPH-1. So
            // its owner keeps it until this call is over, and no other access conflicts.
            body(unsafe { A::host(&raw) });
        };
        let task = HostTask::new(Box::new(run), Arc::clone(closures), self.core().device(), at);
        if self.core().is_graph() {
            let function = task.again();
            self.core().keep_host_task(task);
            return call.make(|driver, at| {
                // SAFETY: the stream is live (CORE-1). The graph of the capture keeps the task
                // (INSTANCE-3), which neither unwinds nor calls the driver.
                unsafe { driver.launch_host_function(at, function, &uses) }
            });
        }
        task.launch_once(|function| {
            call.make(|driver, at| {
                // SAFETY: the stream is live (CORE-1). The function owns the task, which neither
                // unwinds nor calls the driver.
                unsafe { driver.launch_host_function(at, function, &uses) }
            })
        })
    }
}
