//! [`DeviceCore`]: the state that the handles of one device instance share.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::device::run_time_streams::{RunTimeStreams, StreamState};
use crate::error::{During, Error, Unordered};
use crate::interop::foreign_kernels::LoadedModule;
use crate::memory::{DevicePool, ManagedPool, PinnedPool, WriteCombinedPool};
use crate::observability;
use crate::order::clocks::Clocks;
use crate::order::completion::Completion;
use crate::order::event_pool::EventPool;
use crate::order::host_task::HostTask;
use crate::order::observer::Observed;
use crate::order::stream_ref::{StreamId, StreamRef};
use crate::tag::Priority;
use cuda_rt_driver::process::Process;
use cuda_rt_driver::{Backend, Driver, DriverError, DriverResult};
use cuda_rt_driver::{DriverWithTools, Tools, Trace, Traced};

/// The identity of an instance of a device. It is a counter that is never reused. Two instances of
/// one GPU may share a driver, and each keeps its own streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstanceId(u64);

impl InstanceId {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // A counter needs no ordering. No process opens 2^64 devices.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One device instance: its driver, streams, events and pinned memory. Buffers, handoffs and
/// streams keep it alive.
///
/// # Invariants
/// CORE-1. A stream in `streams`, `anonymous` or `stream_for_frees` is live until the core is
/// dropped.
/// CORE-2. Each key has one entry in `streams`, which is never replaced: a tag names one CUDA
/// stream (docs/soundness.md, obligation 1). `name_stream` is called before any other use of a new
/// core.
#[derive(Debug)]
pub(crate) struct DeviceCore {
    driver: Arc<dyn Driver>,
    /// The device's own driver: in a capture, the driver below the capture's.
    device: Weak<dyn Driver>,
    /// The instance of the device, which the cores of its captures share.
    instance: InstanceId,
    tools: Arc<dyn Tools>,
    streams: Mutex<HashMap<TypeId, StreamRef>>,
    /// Streams without a tag: of pools, and streams that were created at run time.
    anonymous: Mutex<Vec<StreamRef>>,
    /// The holders of streams that are known at run time.
    run_time: Arc<RunTimeStreams>,
    /// The stream that frees memory that no stream owns any more.
    stream_for_frees: StreamRef,
    events: Arc<EventPool>,
    /// The observer of the device's work.
    observed: Arc<Observed>,
    /// The threads that wait for events on behalf of tasks.
    completion: Arc<Completion>,
    memory: DevicePool,
    pinned: PinnedPool,
    managed: ManagedPool,
    write_combined: WriteCombinedPool,
    graph: bool,
    /// The host functions of the capture in progress, which its graph will own.
    host_tasks: Mutex<Vec<Arc<HostTask>>>,
    /// The foreign modules of the capture in progress, each once, which its graph will share.
    modules: Mutex<Vec<Arc<LoadedModule>>>,
    /// Whether a checker follows the driver, and so needs the position of each call.
    checked: bool,
    /// The process of the streams, the events and the memory.
    process: Process,
}

impl DeviceCore {
    pub(crate) fn new(over: Arc<dyn DriverWithTools>, clocks: Clocks) -> DriverResult<Arc<Self>> {
        let tools: Arc<dyn Tools> = Arc::<dyn DriverWithTools>::clone(&over);
        let completion = Completion::of(over.properties().backend);
        let driver: Arc<dyn Driver> = over;
        let device = Arc::downgrade(&driver);
        Self::over(
            driver,
            (device, InstanceId::new()),
            tools,
            completion,
            Some(clocks),
        )
    }

    /// A core for a capture, over the capture's driver. The capture begins on the core's stream for
    /// frees, and the core's streams take part in it. Memory dropped inside the capture is freed on
    /// this stream, so no outside stream joins the capture. Its streams have no clocks: what they
    /// record and wait for are edges of a graph, which order nothing now.
    pub(crate) fn for_capture(&self, driver: Arc<dyn Driver>) -> DriverResult<Arc<Self>> {
        let completion = self.completion.for_capture();
        let (device, tools) = (Weak::clone(&self.device), Arc::clone(&self.tools));
        Self::over(driver, (device, self.instance), tools, completion, None)
    }

    fn over(
        driver: Arc<dyn Driver>,
        (device, instance): (Weak<dyn Driver>, InstanceId),
        tools: Arc<dyn Tools>,
        completion: Completion,
        clocks: Option<Clocks>,
    ) -> DriverResult<Arc<Self>> {
        let properties = driver.properties();
        let (least_urgent, _) = properties.priority_range;
        let stream_for_frees = driver.create_stream(least_urgent)?;
        let graph = clocks.is_none();
        let observed = Arc::<Observed>::default();
        let completion = Arc::new(completion);
        let events = EventPool::new(
            Arc::clone(&driver),
            Arc::clone(&observed),
            Arc::clone(&completion),
            clocks,
            (properties.backend == Backend::Simulated).then(|| Arc::clone(&tools)),
        );
        let stream_for_frees = events.stream(stream_for_frees);
        Ok(Arc::new(Self {
            memory: DevicePool::new(Arc::clone(&driver), Arc::clone(&events), stream_for_frees, graph),
            streams: Mutex::default(),
            anonymous: Mutex::default(),
            run_time: Arc::default(),
            stream_for_frees,
            events,
            observed,
            completion,
            pinned: PinnedPool::new(Arc::clone(&driver)),
            managed: ManagedPool::new(Arc::clone(&driver)),
            write_combined: WriteCombinedPool::new(Arc::clone(&driver)),
            graph,
            host_tasks: Mutex::default(),
            modules: Mutex::default(),
            checked: tools.is_checked(),
            process: Process::current(),
            tools,
            device,
            instance,
            driver,
        }))
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// The driver, for values that outlive the device's handles.
    pub(crate) fn shared_driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver)
    }

    /// The device's own driver, also in a capture, whose driver may end before the graph's
    /// launches. For values that do not keep the device alive.
    pub(crate) fn device(&self) -> Weak<dyn Driver> {
        Weak::clone(&self.device)
    }

    /// The instance of the device: in a capture, the instance of the captured stream.
    pub(crate) fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The device's tools: its checker, its traces, the handle of a simulated device.
    pub(crate) fn tools(&self) -> &Arc<dyn Tools> {
        &self.tools
    }

    /// The driver, if every earlier ordering was made. For work that relies on that.
    #[inline]
    pub(crate) fn ordered(&self) -> Result<&dyn Driver, Unordered> {
        self.check()?;
        Ok(&*self.driver)
    }

    /// Whether a checker follows the driver, and so needs the position of each call.
    #[inline]
    pub(crate) fn is_checked(&self) -> bool {
        self.checked
    }

    /// Returns an error if an ordering could not be made.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Unordered> {
        match self.events.sticky_error() {
            None => Ok(()),
            Some(cause) => Err(self.unordered(cause)),
        }
    }

    #[cold]
    fn unordered(&self, cause: &DriverError) -> Unordered {
        Unordered {
            cause: cause.clone(),
            graph: self.graph,
            first: self.events.is_first_refusal(),
        }
    }

    /// The error of a record that failed, in the call `during`. A device that takes no more work
    /// has refused the record, and says so.
    #[cold]
    pub(crate) fn not_recorded<T>(&self, error: DriverError, during: &'static str) -> Result<T, Error> {
        self.check().during(during)?;
        Err(error).during(during)
    }

    /// Notes that an ordering could not be made, neither by a wait on the GPU nor on the host.
    /// Nothing more is enqueued from now on, and no event is recorded.
    pub(crate) fn set_sticky_error(&self, error: DriverError) {
        self.events.set_sticky_error(error);
    }

    pub(crate) fn events(&self) -> &Arc<EventPool> {
        &self.events
    }

    #[inline]
    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    pub(crate) fn completion(&self) -> &Arc<Completion> {
        &self.completion
    }

    /// The memory of buffers.
    #[inline]
    pub(crate) fn memory(&self) -> &DevicePool {
        &self.memory
    }

    pub(crate) fn pinned(&self) -> &PinnedPool {
        &self.pinned
    }

    pub(crate) fn managed(&self) -> &ManagedPool {
        &self.managed
    }

    pub(crate) fn write_combined(&self) -> &WriteCombinedPool {
        &self.write_combined
    }

    pub(crate) fn stream_for_frees(&self) -> StreamRef {
        self.stream_for_frees
    }

    /// Whether work of this core is being recorded into a graph.
    pub(crate) fn is_graph(&self) -> bool {
        self.graph
    }

    /// Keeps a host function of the capture in progress.
    pub(crate) fn keep_host_task(&self, task: Arc<HostTask>) {
        self.host_tasks().push(task);
    }

    /// Takes the host functions of the capture in progress.
    pub(crate) fn take_host_tasks(&self) -> Vec<Arc<HostTask>> {
        std::mem::take(&mut *self.host_tasks())
    }

    fn host_tasks(&self) -> MutexGuard<'_, Vec<Arc<HostTask>>> {
        // The list is consistent after any panic: it changes in one step.
        self.host_tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a module whose kernels the capture in progress launches.
    pub(crate) fn keep_module(&self, module: &Arc<LoadedModule>) {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if !modules.iter().any(|kept| Arc::ptr_eq(kept, module)) {
            modules.push(Arc::clone(module));
        }
    }

    /// Takes the modules of the capture in progress.
    pub(crate) fn take_modules(&self) -> Vec<Arc<LoadedModule>> {
        std::mem::take(&mut *self.modules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The one stream of `key`, created at the first call.
    pub(crate) fn named_stream(&self, key: TypeId, priority: Priority) -> DriverResult<StreamRef> {
        let _later = observability::later();
        // Entries are only inserted, so the map is consistent after a panic under the lock.
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = streams.get(&key) {
            return Ok(*at);
        }
        let at = self.create_stream(priority)?;
        streams.insert(key, at);
        Ok(at)
    }

    /// Enters `at` under `key`. Another field of the core owns `at`.
    pub(crate) fn name_stream(&self, key: TypeId, at: StreamRef) {
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, at);
    }

    /// Ends a trace of this device, and names for each piece of work its index in `streams`. All
    /// `streams` must belong to this core. Work of an adopted stream gets no index, because the
    /// stream may be destroyed by now.
    pub(crate) fn finish_trace(&self, trace: Box<dyn Trace>, streams: &[StreamRef]) -> Vec<Traced> {
        let kept = streams.iter().enumerate().filter(|(_, at)| !at.is_adopted());
        let (places, raws): (Vec<_>, Vec<_>) = kept.map(|(place, at)| (place, at.handle())).unzip();
        // SAFETY: CORE-1: the streams passed here are not adopted, so this core keeps them live.
        let mut found = unsafe { trace.finish(&raws) };
        for traced in &mut found {
            traced.stream = traced.stream.map(|index| places[index]);
        }
        found
    }

    /// Makes `at` wait for every other named stream, in the order of the streams' creation. The
    /// order is fixed because an update of a graph must make the same calls as its capture.
    pub(crate) fn join_all(&self, at: StreamRef) -> DriverResult<()> {
        let mut streams: Vec<StreamRef> = {
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.values().copied().collect()
        };
        streams.sort_unstable_by_key(|other| other.id());
        streams
            .into_iter()
            .filter(|other| other.id() != at.id())
            .try_for_each(|other| self.events.record(other, false)?.wait_on(at))
    }

    /// Blocks the host until the work that each stream of this core holds now is done, one stream
    /// after another. The streams of a device's core are never captured: a capture has a core of
    /// its own.
    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        // The locks are not held during the waits: other threads go on.
        let mut streams: Vec<StreamRef> = {
            let named = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            named.values().copied().collect()
        };
        {
            let anonymous = self.anonymous.lock().unwrap_or_else(PoisonError::into_inner);
            streams.extend(anonymous.iter().copied());
        }
        streams.push(self.stream_for_frees);
        streams
            .into_iter()
            .try_for_each(|at| self.observed.host_waits(at.id(), || self.wait_for_stream(at)))
    }

    /// Blocks the host until the present work of `at`, a stream of this core, is done
    /// (`cuStreamSynchronize`).
    pub(crate) fn wait_for_stream(&self, at: StreamRef) -> DriverResult<()> {
        // SAFETY: CORE-1: the stream is live while the core is.
        let wait = |at| unsafe { self.driver.synchronize_stream(at) };
        at.host_waits(|at| wait(at).map(|()| true)).map(drop)
    }

    /// Creates a stream without a tag. The core keeps it until the core is dropped.
    pub(crate) fn anonymous_stream(&self, priority: Priority) -> DriverResult<StreamRef> {
        let at = self.create_stream(priority)?;
        self.anonymous
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(at);
        Ok(at)
    }

    /// The one stream of `key`, if no earlier call has asked for it.
    pub(crate) fn new_named_stream(
        &self,
        key: TypeId,
        priority: Priority,
    ) -> DriverResult<Option<StreamRef>> {
        let _later = observability::later();
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.contains_key(&key) {
            return Ok(None);
        }
        let at = self.create_stream(priority)?;
        streams.insert(key, at);
        Ok(Some(at))
    }

    /// A stream with a name, for one holder: a stream that its last holder has returned, or a new
    /// one.
    pub(crate) fn run_time_stream(&self, name: &str, priority: Priority) -> DriverResult<Arc<StreamState>> {
        let at = match self.run_time.take_returned(priority) {
            Some(at) => at,
            None => self.anonymous_stream(priority)?,
        };
        Ok(self.run_time.enter(at, name, priority))
    }

    /// The state of `at`, a stream of this core that is not adopted. `name` is its name, unless it
    /// was created at run time.
    pub(crate) fn stream_state(
        &self,
        at: StreamRef,
        name: impl FnOnce() -> &'static str,
    ) -> Arc<StreamState> {
        self.run_time.state_of(at, name)
    }

    /// The state of the stream `id`, if it is held at run time.
    pub(crate) fn find_stream_state(&self, id: StreamId) -> Option<Arc<StreamState>> {
        self.run_time.find(id)
    }

    fn create_stream(&self, priority: Priority) -> DriverResult<StreamRef> {
        let priority = priority.within(self.driver.properties().priority_range);
        let at = self.events.stream(self.driver.create_stream(priority)?);
        observability::stream_created(self.driver(), at.id(), priority);
        Ok(at)
    }

    /// The device's CUDA streams, its own two included, and how many of them nobody holds.
    pub(crate) fn count_streams(&self) -> (usize, usize) {
        let named = {
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            let own = self.stream_for_frees.id();
            streams.values().filter(|at| at.id() != own).count()
        };
        let anonymous = self
            .anonymous
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        let own = 1 + usize::from(self.memory.has_stream());
        (named + anonymous + own, self.run_time.count_returned())
    }
}

impl Drop for DeviceCore {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // A child of `fork` leaks what is its parent's, and the driver with it.
            std::mem::forget(Arc::clone(&self.driver));
            return;
        }
        // Memory is closed first: its last events may still be pending on these streams.
        self.memory.close();
        self.pinned.close();
        self.managed.close();
        self.write_combined.close();
        self.completion.close();
        self.events.close();
        let named = self.streams.get_mut().unwrap_or_else(PoisonError::into_inner);
        let anonymous = self.anonymous.get_mut().unwrap_or_else(PoisonError::into_inner);
        let own = named.values().filter(|at| at.id() != self.stream_for_frees.id());
        for at in own.chain(anonymous.iter()).chain([&self.stream_for_frees]) {
            // SAFETY: CORE-1: the stream is live, and no value that could name it outlives the
            // core. An error leaks the stream.
            let _ = at.ask(|at| unsafe { self.driver.destroy_stream(at) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use crate::Device;
    use cuda_rt_checker::Check;
    use cuda_rt_driver::{Race, Site};
    use cuda_rt_simulator::SimConfig;

    crate::streams! {
        Compute;
        Other;
    }

    fn place(site: Site) -> (&'static str, u32) {
        let Site::Code(place) = site else {
            panic!("{site:?}")
        };
        (place.file(), place.line())
    }

    /// Only raw calls of the driver can race with the typed API. The report names the user's line
    /// for the typed side.
    #[test]
    fn a_race_with_a_typed_call_names_the_line_of_the_user() {
        let races: Vec<Race> = Device::simulated(SimConfig::new().check(Check::Record), |gpu| {
            let (compute, other) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Other<_>>().unwrap(),
            );
            let mut data = compute.alloc_zeroed::<u32>(16).unwrap();
            compute.fill(&mut data, 1).unwrap(); // the line that is reported
            // SAFETY: the memory is live and the range in bounds; the simulated device runs racing
            // operations one at a time.
            unsafe {
                gpu.core()
                    .driver()
                    .fill(data.address(), &[0], 64, other.at().handle())
            }
            .unwrap();
            let mut idle = gpu.pinned::<u32>(16).unwrap();
            let address = NonNull::from(&mut idle[..]).cast();
            let host = compute.adopt(idle).unwrap();
            // SAFETY: as above.
            unsafe {
                gpu.core()
                    .driver()
                    .copy_to_host(address, data.address(), 64, other.at().handle())
            }
            .unwrap();
            let host = compute.release(host).unwrap().synchronize().unwrap();
            drop(host);
            gpu.races()
        })
        .unwrap();
        let fill = &races[1];
        assert_eq!((&*fill.first.name, &*fill.second.name), ("Compute", "Other"));
        let reported = include_str!("core.rs")
            .lines()
            .position(|line| line.ends_with("// the line that is reported"));
        assert_eq!(
            place(fill.first.operation.site),
            (file!(), reported.unwrap() as u32 + 1)
        );
        assert_eq!(
            fill.second.operation.site,
            Site::Unknown,
            "a raw call through `dyn`"
        );
        let settled = races
            .iter()
            .find(|race| race.second.operation.name == "Handoff::synchronize")
            .unwrap();
        assert_eq!(place(settled.second.operation.site).0, file!());
    }
}
