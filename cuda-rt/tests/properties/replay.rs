//! Runs a log again on simulated devices, whole or with one call left out, in an order that a seed chooses.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cuda_rt::check::{AccessKind, Race, Site};
use cuda_rt::driver::sim::{SimConfig, SimDriver, Simulator};
use cuda_rt::driver::{
    Check, DeviceAddress, Driver, DriverError, DriverResult, HostMemory, Note, Passed, RawEvent, RawGraph,
    RawStream, at_statement,
};

use crate::log::{Call, Direction, Entry, Log, Place};
use crate::order::Side;

/// What a replay came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// A call that the recorded run made with success was refused, and the replay ended there.
    pub(crate) refused: Option<DriverError>,
    /// The first entry at which the host saw other bytes than in the recorded run.
    pub(crate) wrong: Option<usize>,
    /// What the checkers report.
    pub(crate) races: Vec<(Side, Side)>,
}

struct Replay {
    drivers: [Arc<SimDriver>; 2],
    streams: HashMap<(usize, u64), RawStream>,
    events: HashMap<(usize, u64), RawEvent>,
    graphs: HashMap<(usize, u64), RawGraph>,
    addresses: Vec<u64>,
    /// Mapped until all is over: a mutant may copy there after its program let go of it.
    hosts: HashMap<usize, HostMemory>,
    wrong: Option<usize>,
}

/// In which order a replay runs: the simulated device's, and entries after which the host does something else for a long while.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) config: SimConfig,
    pub(crate) pauses: Vec<usize>,
}

/// Replays `log` without one of its entries; `whole` goes on past the first wrong byte.
pub(crate) fn replay(log: &Log, left_out: Option<usize>, schedule: &Schedule, whole: bool) -> Outcome {
    let config = &schedule.config;
    let driver = || SimDriver::new(config.clone().check(Check::Record));
    let mut replay = Replay {
        drivers: [driver(), driver()],
        streams: HashMap::new(),
        events: HashMap::new(),
        graphs: HashMap::new(),
        addresses: vec![0; log.lives.len()],
        hosts: HashMap::new(),
        wrong: None,
    };
    let mut refused = None;
    for (i, entry) in log.entries.iter().enumerate() {
        if Some(i) == left_out {
            continue;
        }
        if let Err(error) = at_statement(i, || replay.entry(log, i, entry)) {
            refused = Some(error);
            break;
        }
        if replay.wrong.is_some() && !whole {
            break;
        }
        if schedule.pauses.contains(&i) {
            // What was called last comes first, with what it needs.
            if let Some(stream) = Log::stream(&entry.call) {
                let stream = replay.streams[&(entry.device, stream)];
                replay.simulator(entry.device).run_stream(stream);
            }
            (0..2).for_each(|device| replay.simulator(device).run_pending());
        }
    }
    let races: Vec<Race> = replay.drivers.iter().flat_map(|driver| driver.races()).collect();
    let side = |party: &cuda_rt::check::Party| match party.operation.site {
        Site::Statement(entry) => (entry, party.access == AccessKind::Write),
        ref other => panic!("every call is made at a statement, not at {other:?}"),
    };
    Outcome {
        refused,
        wrong: replay.wrong,
        races: races
            .iter()
            .map(|race| (side(&race.first), side(&race.second)))
            .collect(),
    }
}

impl Replay {
    fn simulator(&self, device: usize) -> &Simulator {
        self.drivers[device].simulator().expect("simulated")
    }

    fn address(&self, place: Place) -> u64 {
        self.addresses[place.life] + place.offset
    }

    fn host(&self, place: Place) -> NonNull<c_void> {
        let start = self.hosts[&place.life].address();
        // SAFETY: a place lies in its life, which is one mapping.
        unsafe { start.byte_add(place.offset as usize) }
    }

    /// Makes one call. Handles and ranges are those of calls made before, translated.
    fn entry(&mut self, log: &Log, i: usize, Entry { device, call }: &Entry) -> DriverResult<()> {
        let device = *device;
        let driver = Arc::clone(&self.drivers[device]);
        let own = |handle: &u64| (device, *handle);
        let stream = |replay: &Self, stream: &u64| replay.streams[&own(stream)];
        let event = |replay: &Self, event: &u64| replay.events[&own(event)];
        match call {
            Call::CreateStream(made) => {
                self.streams.insert(own(made), driver.create_stream(0)?);
            }
            Call::CreateEvent { event, timing } => {
                self.events.insert(own(event), driver.create_event(*timing)?);
            }
            Call::Register(life) => {
                let memory = HostMemory::map(log.lives[*life] as usize).expect("a few pages");
                // SAFETY: mapped until the replay is over.
                unsafe { driver.register_host(&memory) }?;
                self.addresses[*life] = memory.address().addr().get() as u64;
                self.hosts.insert(*life, memory);
            }
            Call::HostWrote { to, bytes } => {
                self.note(&driver, *to, bytes.len());
                // SAFETY: in bounds; the simulated devices run on this thread only, so not now.
                unsafe {
                    self.host(*to)
                        .cast::<u8>()
                        .as_ptr()
                        .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
                };
            }
            Call::HostSees { from, bytes } => {
                self.note(&driver, *from, bytes.len());
                let seen = self.host(*from).cast::<u8>();
                // SAFETY: as above, and mapped zeroed.
                let seen = unsafe { std::slice::from_raw_parts(seen.as_ptr(), bytes.len()) };
                if seen != bytes {
                    self.wrong.get_or_insert(i);
                }
            }
            Call::Alloc { life, stream: at } => {
                // SAFETY: live.
                let address = unsafe { driver.alloc(log.lives[*life] as usize, stream(self, at)) }?;
                self.addresses[*life] = address.0;
            }
            Call::SeenDone(done) => {
                // SAFETY: live. Each query makes some progress, so the loop ends.
                while !unsafe { driver.query_event(event(self, done)) }? {}
            }
            Call::EndCapture { stream: at, graph } => {
                // SAFETY: it is being captured; if a mutant made it none, the simulated device says so.
                let made = unsafe { driver.end_capture(stream(self, at)) }?;
                self.graphs.insert(own(graph), made);
            }
            // SAFETY, here and below: handles are live, as they were in the recorded run; ranges lie in bounds. A mutant's accesses
            // may race: the simulated device runs them one at a time, on memory that stays mapped.
            Call::DestroyStream(at) => unsafe { driver.destroy_stream(stream(self, at)) }?,
            // SAFETY: above.
            Call::SynchronizeStream(at) => unsafe { driver.synchronize_stream(stream(self, at)) }?,
            // SAFETY: above.
            Call::DestroyEvent(gone) => unsafe { driver.destroy_event(event(self, gone)) }?,
            // SAFETY: above.
            Call::Record {
                event: of,
                stream: at,
            } => unsafe { driver.record_event(event(self, of), stream(self, at)) }?,
            // SAFETY: above.
            Call::Wait {
                stream: at,
                event: on,
            } => unsafe { driver.wait_event(stream(self, at), event(self, on)) }?,
            // SAFETY: above.
            Call::SynchronizeEvent(on) => unsafe { driver.synchronize_event(event(self, on)) }?,
            Call::Free { life, stream: at } => {
                // SAFETY: above.
                unsafe { driver.free(DeviceAddress(self.addresses[*life]), stream(self, at)) }?;
            }
            // SAFETY: above.
            Call::Unregister(life) => unsafe { driver.unregister_host(&self.hosts[life]) }?,
            Call::Copy {
                direction,
                to,
                from,
                bytes,
                stream: at,
            } => {
                let (stream, to_address, from_address) = (
                    stream(self, at),
                    DeviceAddress(self.address(*to)),
                    DeviceAddress(self.address(*from)),
                );
                match direction {
                    // SAFETY: above.
                    Direction::ToDevice => {
                        unsafe { driver.copy_to_device(to_address, self.host(*from), *bytes, stream) }?
                    }
                    // SAFETY: above.
                    Direction::ToHost => {
                        unsafe { driver.copy_to_host(self.host(*to), from_address, *bytes, stream) }?
                    }
                    // SAFETY: above.
                    Direction::Within => unsafe { driver.copy(to_address, from_address, *bytes, stream) }?,
                }
            }
            Call::Fill {
                to,
                pattern,
                count,
                stream: at,
            } => {
                let to = DeviceAddress(self.address(*to));
                // SAFETY: above.
                unsafe { driver.fill(to, pattern, *count, stream(self, at)) }?;
            }
            Call::Launch { launch, stream: at } => {
                let addresses: Vec<u64> = launch.places().map(|place| self.address(place)).collect();
                let pointers = launch.pointers(&addresses);
                // SAFETY: above; one pointer for each parameter.
                unsafe { driver.launch(launch.kernel, &launch.shape, &pointers, stream(self, at)) }?;
            }
            // SAFETY: above.
            Call::BeginCapture(at) => unsafe { driver.begin_capture(stream(self, at)) }?,
            // SAFETY: above.
            Call::LaunchGraph { graph, stream: at } => {
                unsafe { driver.launch_graph(self.graphs[&own(graph)], stream(self, at)) }?
            }
            // SAFETY: above.
            Call::DestroyGraph(graph) => unsafe { driver.destroy_graph(self.graphs[&own(graph)]) }?,
        }
        Ok(())
    }

    /// The host has memory from here on; and, as nothing runs on a simulated device but during calls, a moment in which something may.
    fn note(&self, driver: &SimDriver, place: Place, bytes: usize) {
        driver.memory_info().expect("no fault");
        let (address, passed) = (self.host(place), Passed::here("replay"));
        driver.note(Note::HostHas {
            address,
            bytes,
            passed,
        });
    }
}
