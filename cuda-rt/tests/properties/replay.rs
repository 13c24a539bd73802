//! Runs a log again on simulated devices, whole or with one call left out, in an order chosen by a
//! seed.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;

use cuda_rt::checker::at_statement;
use cuda_rt::checker::{AccessKind, Race, Site};
use cuda_rt::driver::{
    DeviceAddress, DriverError, DriverResult, Events, HostMemory, Managed, Peers, RawEvent, RawGraph,
    RawStream, Streams,
};
use cuda_rt::simulator::SimConfig;

use crate::log::{Call, Direction, Entry, Log, Place};
use crate::order::Side;
use crate::rig::Rig;

/// The outcome of a replay.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// A call that succeeded in the recorded run was refused, and the replay ended there.
    pub(crate) refused: Option<DriverError>,
    /// The first entry at which the host saw other bytes than in the recorded run.
    pub(crate) wrong: Option<usize>,
    /// The reports of the checkers.
    pub(crate) races: Vec<(Side, Side)>,
}

struct Replay {
    rigs: [Rig; 2],
    streams: HashMap<u64, RawStream>,
    events: HashMap<u64, RawEvent>,
    graphs: HashMap<u64, RawGraph>,
    addresses: Vec<u64>,
    /// Mapped until the end, because a mutant may copy there after its program released the memory.
    /// Managed memory is not here: the simulated device keeps it mapped after the free.
    hosts: HashMap<usize, HostMemory>,
    wrong: Option<usize>,
}

/// The order in which a replay runs: the simulated device's order, and entries after which the host
/// is busy with other work for a long time.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) config: SimConfig,
    pub(crate) pauses: Vec<usize>,
}

/// Replays `log` without one of its entries. With `whole` it continues after the first wrong byte.
pub(crate) fn replay(log: &Log, left_out: Option<usize>, schedule: &Schedule, whole: bool) -> Outcome {
    let config = &schedule.config;
    let mut replay = Replay {
        rigs: Rig::two(config),
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
            // The call made last comes first, with the work that it needs.
            if let Some(stream) = Log::stream(&entry.call) {
                let stream = replay.streams[&stream];
                replay.rigs[entry.device].simulator().run_stream(stream);
            }
            replay.rigs[0].simulator().run_pending();
        }
    }
    // The devices of one host have one checker.
    let races: Vec<Race> = replay.rigs[0].simulator().races();
    let side = |party: &cuda_rt::checker::Party| match party.operation.site {
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
    fn address(&self, place: Place) -> u64 {
        self.addresses[place.life] + place.offset
    }

    fn host(&self, place: Place) -> NonNull<c_void> {
        let start = self.hosts.get(&place.life).map_or_else(
            || {
                let address = self.addresses[place.life] as usize;
                NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("managed memory")
            },
            HostMemory::address,
        );
        // SAFETY: a place lies inside its life, and a life is one mapping.
        unsafe { start.byte_add(place.offset as usize) }
    }

    /// Makes one call. Handles and ranges of earlier calls are translated to the replay's own.
    fn entry(&mut self, log: &Log, i: usize, Entry { device, call }: &Entry) -> DriverResult<()> {
        let device = *device;
        let rig = self.rigs[device].clone();
        let stream = |replay: &Self, stream: &u64| replay.streams[stream];
        let event = |replay: &Self, event: &u64| replay.events[event];
        match call {
            Call::CreateStream(made) => {
                self.streams.insert(*made, rig.0.create_stream(0)?);
            }
            Call::DestroyStream(at) => rig.destroy_stream(stream(self, at))?,
            Call::SynchronizeStream(at) => rig.synchronize_stream(stream(self, at))?,
            Call::SeenStreamDone(done) => while !rig.query_stream(stream(self, done))? {},
            Call::CreateEvent { event, timing } => {
                self.events.insert(*event, rig.0.create_event(*timing)?);
            }
            Call::DestroyEvent(gone) => rig.destroy_event(event(self, gone))?,
            Call::Record {
                event: of,
                stream: at,
            } => rig.record_event(event(self, of), stream(self, at))?,
            Call::Wait {
                stream: at,
                event: on,
            } => rig.wait_event(stream(self, at), event(self, on))?,
            // Each query makes some progress, so the loop ends.
            Call::SeenDone(done) => while !rig.query_event(event(self, done))? {},
            Call::SynchronizeEvent(on) => rig.synchronize_event(event(self, on))?,
            Call::Alloc { life, stream: at } => {
                self.addresses[*life] = rig.alloc(log.lives[*life] as usize, stream(self, at))?.0;
            }
            Call::Free { life, stream: at } => {
                rig.free(DeviceAddress(self.addresses[*life]), stream(self, at))?;
            }
            Call::NoteFree { life, stream: at } => {
                rig.note_free(DeviceAddress(self.addresses[*life]), stream(self, at))?;
            }
            Call::NoteAlloc { life, stream: at } => {
                rig.note_alloc(DeviceAddress(self.addresses[*life]), stream(self, at))?;
            }
            Call::Register(life) => {
                let memory = HostMemory::map(log.lives[*life] as usize).expect("a few pages");
                rig.register_host(&memory)?;
                self.addresses[*life] = memory.address().addr().get() as u64;
                self.hosts.insert(*life, memory);
            }
            Call::Unregister(life) => rig.unregister_host(&self.hosts[life])?,
            Call::AllocManaged(life) => {
                let start = rig.0.alloc_managed(log.lives[*life] as usize)?;
                self.addresses[*life] = start.as_ptr().expose_provenance() as u64;
            }
            Call::FreeManaged(life) => {
                rig.free_managed(self.host(Place {
                    life: *life,
                    offset: 0,
                }))?;
            }
            Call::Prefetch {
                at,
                bytes,
                to,
                stream: on,
            } => rig.prefetch(self.host(*at), *bytes, *to, stream(self, on))?,
            Call::CopyPeer {
                to_peer,
                to,
                from,
                bytes,
                stream: at,
            } => {
                let peer = |there: bool| self.rigs[device ^ usize::from(there)].0.peer();
                let [to, from] = [(to, *to_peer), (from, !to_peer)]
                    .map(|(place, there)| (peer(there), DeviceAddress(self.address(*place))));
                rig.copy_peer(to, from, *bytes, stream(self, at))?;
            }
            Call::CopyRows {
                direction,
                to,
                from,
                extent,
                stream: at,
            } => {
                let [device_to, device_from] =
                    [to, from].map(|(place, pitch)| (DeviceAddress(self.address(*place)), *pitch));
                let stream = stream(self, at);
                match direction {
                    Direction::ToDevice => {
                        let from = (self.host(from.0), from.1);
                        rig.copy_rows_to_device(device_to, from, *extent, stream)?;
                    }
                    Direction::ToHost => {
                        let to = (self.host(to.0), to.1);
                        rig.copy_rows_to_host(to, device_from, *extent, stream)?;
                    }
                    Direction::Within => rig.copy_rows(device_to, device_from, *extent, stream)?,
                }
            }
            Call::Copy {
                direction,
                to,
                from,
                bytes,
                stream: at,
            } => {
                let [device_to, device_from] = [to, from].map(|place| DeviceAddress(self.address(*place)));
                let (bytes, stream) = (*bytes, stream(self, at));
                match direction {
                    Direction::ToDevice => rig.copy_to_device(device_to, self.host(*from), bytes, stream)?,
                    Direction::ToHost => rig.copy_to_host(self.host(*to), device_from, bytes, stream)?,
                    Direction::Within => rig.copy(device_to, device_from, bytes, stream)?,
                }
            }
            Call::Fill {
                to,
                pattern,
                count,
                stream: at,
            } => {
                rig.fill(
                    DeviceAddress(self.address(*to)),
                    pattern,
                    *count,
                    stream(self, at),
                )?;
            }
            Call::Launch { launch, stream: at } => {
                let addresses: Vec<u64> = launch.places().map(|place| self.address(place)).collect();
                let pointers = launch.pointers(&addresses);
                rig.launch(launch.kernel, &launch.shape, &pointers, stream(self, at))?;
            }
            Call::BeginCapture(at) => rig.begin_capture(stream(self, at))?,
            Call::EndCapture { stream: at, graph } => {
                let made = rig.end_capture(stream(self, at))?;
                self.graphs.insert(*graph, made);
            }
            Call::LaunchGraph { graph, stream: at } => {
                rig.launch_graph(self.graphs[graph], stream(self, at))?
            }
            Call::DestroyGraph(graph) => rig.destroy_graph(self.graphs[graph])?,
            Call::HostWrote { to, bytes } => {
                rig.note_host_access(self.host(*to), bytes.len(), AccessKind::Write);
                let place = self.host(*to).cast::<u8>().as_ptr();
                // SAFETY: the range is in bounds. The simulated devices run only on this thread, so
                // not at this moment.
                unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
            Call::HostSees { from, bytes } | Call::HostReads { from, bytes } => {
                let access = match call {
                    Call::HostReads { .. } => AccessKind::Read,
                    _ => AccessKind::Write,
                };
                rig.note_host_access(self.host(*from), bytes.len(), access);
                let seen = self.host(*from).cast::<u8>();
                // SAFETY: as above; the memory was mapped zeroed.
                let seen = unsafe { std::slice::from_raw_parts(seen.as_ptr(), bytes.len()) };
                if seen != bytes {
                    self.wrong.get_or_insert(i);
                }
            }
        }
        Ok(())
    }
}
