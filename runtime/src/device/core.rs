//! What the handles of one device instance share.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::Unordered;
use crate::memory::PinnedPool;
use crate::order::completion::Completion;
use crate::order::event_pool::EventPool;
use crate::order::observer::Observed;
use crate::order::stream_ref::{StreamId, StreamRef};
use crate::tag::Priority;
use cuda_rt_driver::{Driver, DriverError, DriverResult};
use cuda_rt_driver::{DriverWithTools, Tools, Trace, Traced};

/// One device instance: its driver, streams, events and pinned memory. Buffers, handoffs and
/// streams keep it alive.
///
/// # Invariants
/// CORE-1. A stream in `streams`, `anonymous` or `reaper` is live until the core is dropped.
/// CORE-2. One entry in `streams` for each key, never replaced (`name_stream` is called before any
/// other use of a new core): a tag names one CUDA stream (docs/soundness.md, obligation 1).
#[derive(Debug)]
pub(crate) struct DeviceCore {
    driver: Arc<dyn Driver>,
    tools: Arc<dyn Tools>,
    streams: Mutex<HashMap<TypeId, StreamRef>>,
    /// Streams without a tag, for pools and captures.
    anonymous: Mutex<Vec<StreamRef>>,
    /// Where memory is freed that no stream owns any more.
    reaper: StreamRef,
    events: Arc<EventPool>,
    /// Who is told of what the device does.
    observed: Arc<Observed>,
    /// Who waits for its events on behalf of tasks.
    completion: Arc<Completion>,
    pinned: PinnedPool,
    graph: bool,
    /// Whether a checker follows the driver, and wants to know where calls stand.
    checked: bool,
    /// Why no more work may be enqueued, once an ordering could not be made.
    broken: OnceLock<DriverError>,
}

impl DeviceCore {
    pub(crate) fn new(over: Arc<dyn DriverWithTools>) -> DriverResult<Arc<Self>> {
        let tools: Arc<dyn Tools> = Arc::<dyn DriverWithTools>::clone(&over);
        Self::over(over, tools, false)
    }

    /// A core whose streams take part in a capture that begins on its reaper, over the driver of
    /// that capture. What is abandoned inside is freed on the reaper, so that no stream of the
    /// outside is drawn in.
    pub(crate) fn for_capture(&self, driver: Arc<dyn Driver>) -> DriverResult<Arc<Self>> {
        Self::over(driver, Arc::clone(&self.tools), true)
    }

    fn over(driver: Arc<dyn Driver>, tools: Arc<dyn Tools>, graph: bool) -> DriverResult<Arc<Self>> {
        let properties = driver.properties();
        let (least_urgent, _) = properties.priority_range;
        let reaper = StreamRef {
            raw: driver.create_stream(least_urgent)?,
            id: StreamId::new(),
        };
        let observed = Arc::<Observed>::default();
        let completion = Arc::new(Completion::of(properties.backend));
        let events = EventPool::new(
            Arc::clone(&driver),
            Arc::clone(&observed),
            Arc::clone(&completion),
        );
        Ok(Arc::new(Self {
            streams: Mutex::default(),
            anonymous: Mutex::default(),
            reaper,
            events,
            observed,
            completion,
            pinned: PinnedPool::new(Arc::clone(&driver)),
            graph,
            checked: tools.is_checked(),
            tools,
            broken: OnceLock::new(),
            driver,
        }))
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// The driver, for what outlives the device's handles.
    pub(crate) fn shared_driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver)
    }

    /// What looks at the device from the side: a checker, a trace, a simulated device's handle.
    pub(crate) fn tools(&self) -> &Arc<dyn Tools> {
        &self.tools
    }

    /// The driver, for work that relies on every earlier ordering having been made.
    #[inline]
    pub(crate) fn ordered(&self) -> Result<&dyn Driver, Unordered> {
        self.check()?;
        Ok(&*self.driver)
    }

    /// Whether a checker follows the driver, and wants to know where calls stand.
    #[inline]
    pub(super) fn is_checked(&self) -> bool {
        self.checked
    }

    /// Whether every ordering asked for was made.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Unordered> {
        match self.broken.get() {
            None => Ok(()),
            Some(cause) => Err(Unordered {
                cause: cause.clone(),
                graph: self.graph,
            }),
        }
    }

    /// An ordering could not be made, by a wait on the GPU or on the host: nothing more is
    /// enqueued.
    pub(crate) fn break_with(&self, error: DriverError) {
        let _ = self.broken.set(error);
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

    pub(crate) fn pinned(&self) -> &PinnedPool {
        &self.pinned
    }

    pub(crate) fn reaper(&self) -> StreamRef {
        self.reaper
    }

    /// Whether work of this core is being recorded into a graph.
    pub(crate) fn is_graph(&self) -> bool {
        self.graph
    }

    /// The one stream of `key`, created at the first call.
    pub(crate) fn named_stream(&self, key: TypeId, priority: Priority) -> DriverResult<StreamRef> {
        // A panic while the lock was held left the map whole: it is only ever inserted into.
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = streams.get(&key) {
            return Ok(*at);
        }
        let at = self.create_stream(priority)?;
        streams.insert(key, at);
        Ok(at)
    }

    /// Enters `at`, which is kept otherwise, under `key`.
    pub(crate) fn name_stream(&self, key: TypeId, at: StreamRef) {
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, at);
    }

    /// Ends a trace of this device, and says of which of `streams`, all of this core, each piece of
    /// work is. That of adopted ones, which may be gone, is of none.
    pub(crate) fn finish_trace(&self, trace: Box<dyn Trace>, streams: &[StreamRef]) -> Vec<Traced> {
        let kept = streams.iter().enumerate().filter(|(_, at)| !at.id.is_adopted());
        let (places, raws): (Vec<_>, Vec<_>) = kept.map(|(place, at)| (place, at.raw)).unzip();
        // SAFETY: CORE-1.
        let mut found = unsafe { trace.finish(&raws) };
        for traced in &mut found {
            traced.stream = traced.stream.map(|index| places[index]);
        }
        found
    }

    /// Makes `at` wait for every other named stream, in the order in which they were made: that of
    /// an update must be the capture's.
    pub(crate) fn join_all(&self, at: StreamRef) -> DriverResult<()> {
        let mut streams: Vec<StreamRef> = {
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.values().copied().collect()
        };
        streams.sort_unstable_by_key(|other| other.id);
        streams
            .into_iter()
            .filter(|other| other.id != at.id)
            .try_for_each(|other| self.events.record(other, false)?.wait_on(at))
    }

    /// A stream with no tag, kept until the core is dropped.
    pub(crate) fn anonymous_stream(&self, priority: Priority) -> DriverResult<StreamRef> {
        let at = self.create_stream(priority)?;
        self.anonymous
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(at);
        Ok(at)
    }

    fn create_stream(&self, priority: Priority) -> DriverResult<StreamRef> {
        let raw = self
            .driver
            .create_stream(priority.within(self.driver.properties().priority_range))?;
        Ok(StreamRef {
            raw,
            id: StreamId::new(),
        })
    }
}

impl Drop for DeviceCore {
    fn drop(&mut self) {
        // Pinned memory first: its last events may still be pending on these streams.
        self.pinned.close();
        self.completion.close();
        self.events.close();
        let named = self.streams.get_mut().unwrap_or_else(PoisonError::into_inner);
        let anonymous = self.anonymous.get_mut().unwrap_or_else(PoisonError::into_inner);
        let own = named.values().filter(|at| at.id != self.reaper.id);
        for at in own.chain(anonymous.iter()).chain([&self.reaper]) {
            // SAFETY: CORE-1; nothing that could name the stream outlives the core. An error leaks
            // the stream.
            let _ = unsafe { self.driver.destroy_stream(at.raw) };
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

    /// Calls behind the types' back are the only way to race with the typed API: its side is
    /// reported where the user called it.
    #[test]
    fn a_race_with_a_typed_call_names_the_line_of_the_user() {
        let races: Vec<Race> = Device::simulated(SimConfig::new().check(Check::Record), |gpu| {
            let (compute, other) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Other<_>>().unwrap(),
            );
            let mut data = compute.alloc_zeroed::<u32>(16).unwrap();
            compute.fill(&mut data, 1).unwrap(); // the line that is reported
            // SAFETY: live and in bounds; the simulated device runs what races one after another.
            unsafe { gpu.core().driver().fill(data.address(), &[0], 64, other.at().raw) }.unwrap();
            let mut idle = gpu.pinned::<u32>(16).unwrap();
            let address = NonNull::from(&mut idle[..]).cast();
            let host = compute.adopt(idle).unwrap();
            // SAFETY: as above.
            unsafe {
                gpu.core()
                    .driver()
                    .copy_to_host(address, data.address(), 64, other.at().raw)
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
