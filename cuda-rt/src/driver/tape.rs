//! What a capture is made of, call by call; and a second run of the same calls, noted instead of made.
//!
//! A captured graph may be updated by running the body of its capture again. Most of the time only a scalar or an
//! address of a launch is another one, and then the graph's nodes can be changed one by one
//! ([`Driver::set_launch`]), with no capture at all. The tape finds out: a *rehearsal* runs the body with nothing
//! enqueued, and its calls are compared with those that the graph was captured from.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::packed::Packed;
use super::{
    Communicator, DeviceAddress, Driver, DriverError, DriverResult, ErrorCode, ForeignUse, HostMemory,
    MemoryInfo, MemoryPoolStats, Note, PeerAccess, Properties, RawEvent, RawGraph, RawNode, RawPeer,
    RawStream, Trace, sim,
};
use crate::check::Race;
use crate::kernel::{Kernel, LaunchShape};

/// The driver of a capture's streams.
///
/// # Invariants
/// T1. No parameter of a launch that is not `padded` has padding: [`Stream::__launch`](crate::Stream::__launch) asks for that.
#[derive(Debug)]
pub(crate) struct Tape {
    inner: Arc<dyn Driver>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    /// The calls that the graph was captured or last updated from.
    captured: Entries,
    /// Those of the run in progress.
    run: Run,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Calls are passed on.
    #[default]
    Off,
    /// Calls are passed on, and noted.
    Capture,
    /// Calls are noted.
    Rehearsal,
}

#[derive(Debug, Default)]
struct Run {
    entries: Vec<Entry>,
    /// Streams in the order in which they were first used.
    streams: Vec<RawStream>,
    /// The latest record of each event, by its place among `entries`.
    records: HashMap<RawEvent, usize>,
}

/// The calls of one run, in their order. Streams and events are named by when they were first used, so that two runs compare.
#[derive(Debug, Default)]
pub(crate) struct Entries(Vec<Entry>);

#[derive(Debug)]
enum Entry {
    Record {
        stream: usize,
    },
    Wait {
        stream: usize,
        record: Option<usize>,
    },
    Alloc {
        stream: usize,
        bytes: usize,
        address: DeviceAddress,
    },
    Free {
        stream: usize,
        address: DeviceAddress,
    },
    Copy {
        stream: usize,
        kind: Copied,
        to: u64,
        from: u64,
        bytes: usize,
    },
    Fill {
        stream: usize,
        to: DeviceAddress,
        pattern: Box<[u8]>,
        count: usize,
    },
    Launch(Launch),
    Foreign {
        stream: usize,
        name: &'static str,
    },
}

#[derive(Debug)]
struct Launch {
    stream: usize,
    shape: LaunchShape,
    parameters: Packed,
    /// Whether values may have padding: bytes that must not be read, so that two such launches do not compare.
    padded: bool,
    /// `None` where the driver did not say, or in a rehearsal.
    node: Option<RawNode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    ToDevice,
    ToHost,
    Within,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { .. } => f.write_str("the end of a stream's part"),
            Self::Wait { .. } => f.write_str("a wait"),
            Self::Alloc { bytes, .. } => write!(f, "an allocation of {bytes} bytes"),
            Self::Free { .. } => f.write_str("the end of an allocation"),
            Self::Copy { kind, bytes, .. } => {
                let kind = match kind {
                    Copied::ToDevice => " to the device",
                    Copied::ToHost => " to the host",
                    Copied::Within => "",
                };
                write!(f, "a copy{kind} of {bytes} bytes")
            }
            Self::Fill { pattern, count, .. } => write!(f, "a fill of {} bytes", pattern.len() * count),
            Self::Launch(launch) => write!(f, "a launch of `{}`", launch.parameters.kernel().name),
            Self::Foreign { name, .. } => write!(f, "a foreign call `{name}`"),
        }
    }
}

/// Why one run is no update of another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Which of the body's operations, counted from 1.
    pub(crate) operation: usize,
    pub(crate) why: String,
}

/// How one run differs from another of the same calls.
#[derive(Debug, Default)]
struct Changes {
    /// Launches with other arguments or shapes.
    launches: Vec<usize>,
    /// The first that takes a capture to change.
    capture: Option<usize>,
}

impl Entries {
    fn operation(&self, place: usize) -> usize {
        let counts = |entry: &&Entry| {
            !matches!(
                entry,
                Entry::Record { .. } | Entry::Wait { .. } | Entry::Free { .. }
            )
        };
        1 + self.0.iter().take(place).filter(counts).count()
    }

    /// What `new` changes, if it makes the same calls on the same streams in the same order.
    fn changes(&self, new: &Self) -> Result<Changes, Difference> {
        let mut changes = Changes::default();
        for place in 0..self.0.len().max(new.0.len()) {
            let (old, new) = (self.0.get(place), new.0.get(place));
            let change = match (old, new) {
                (Some(old), Some(new)) => old.change(new),
                _ => None,
            };
            match change {
                Some(Change::None) => {}
                Some(Change::Launch) => changes.launches.push(place),
                Some(Change::Other) => {
                    changes.capture.get_or_insert(place);
                }
                None => {
                    let say = |entry: Option<&Entry>| entry.map_or("nothing".into(), ToString::to_string);
                    return Err(Difference {
                        operation: self.operation(place),
                        why: format!("was {} when it was captured, and is {}", say(old), say(new)),
                    });
                }
            }
        }
        Ok(changes)
    }

    /// Whether it ends at a foreign call, if it is of a rehearsal, or has one.
    pub(crate) fn calls_foreign(&self) -> bool {
        self.foreign().is_some()
    }

    fn foreign(&self) -> Option<usize> {
        self.0
            .iter()
            .position(|entry| matches!(entry, Entry::Foreign { .. }))
    }

    fn allocates(&self) -> bool {
        self.0.iter().any(|entry| matches!(entry, Entry::Alloc { .. }))
    }

    fn launch(&self, place: usize) -> Option<&Launch> {
        match self.0.get(place) {
            Some(Entry::Launch(launch)) => Some(launch),
            _ => None,
        }
    }

    /// Gives launches the nodes that they have in `from`, a run of the same calls.
    fn take_nodes(&mut self, from: &Self) {
        for (new, old) in self.0.iter_mut().zip(&from.0) {
            if let (Entry::Launch(new), Entry::Launch(old)) = (new, old) {
                new.node = old.node;
            }
        }
    }
}

enum Change {
    None,
    Launch,
    Other,
}

impl Change {
    fn other_if(changed: bool) -> Self {
        if changed { Self::Other } else { Self::None }
    }
}

impl Entry {
    /// How `new` differs; `None` if it is another call.
    fn change(&self, new: &Self) -> Option<Change> {
        let (same, change) = match (self, new) {
            (Self::Record { stream: a }, Self::Record { stream: b }) => (a == b, Change::None),
            (
                Self::Wait {
                    stream: a,
                    record: from,
                },
                Self::Wait {
                    stream: b,
                    record: to,
                },
            ) => ((a, from) == (b, to), Change::None),
            // Addresses that a graph allocates are its own: those of another capture are others.
            (
                Self::Alloc {
                    stream: a, bytes: x, ..
                },
                Self::Alloc {
                    stream: b, bytes: y, ..
                },
            ) => ((a, x) == (b, y), Change::None),
            // In a rehearsal addresses are those of the capture; were the wrong one of two freed, launches would use freed memory.
            (
                Self::Free {
                    stream: a,
                    address: x,
                },
                Self::Free {
                    stream: b,
                    address: y,
                },
            ) => ((a, x) == (b, y), Change::None),
            (
                Self::Copy {
                    stream: a,
                    kind: old,
                    to,
                    from,
                    bytes,
                },
                Self::Copy {
                    stream: b,
                    kind: new,
                    to: to_now,
                    from: from_now,
                    bytes: bytes_now,
                },
            ) => (
                (a, old) == (b, new),
                Change::other_if((to, from, bytes) != (to_now, from_now, bytes_now)),
            ),
            (
                Self::Fill {
                    stream: a,
                    to,
                    pattern,
                    count,
                },
                Self::Fill {
                    stream: b,
                    to: to_now,
                    pattern: pattern_now,
                    count: count_now,
                },
            ) => (
                a == b,
                Change::other_if((to, pattern, count) != (to_now, pattern_now, count_now)),
            ),
            (Self::Launch(old), Self::Launch(new)) => {
                let same = old.stream == new.stream
                    && std::ptr::eq(old.parameters.kernel(), new.parameters.kernel());
                let comparable = same && old.shape == new.shape && !old.padded && !new.padded;
                // SAFETY: T1.
                let equal = comparable && unsafe { old.parameters.same_bytes(&new.parameters) };
                let change = match old.node {
                    _ if equal => Change::None,
                    Some(_) => Change::Launch,
                    None => Change::Other,
                };
                (same, change)
            }
            // What is behind it is not known, so it may have changed.
            (Self::Foreign { stream: a, name: x }, Self::Foreign { stream: b, name: y }) => {
                ((a, x) == (b, y), Change::Other)
            }
            _ => (false, Change::None),
        };
        same.then_some(change)
    }
}

impl Run {
    fn stream(&mut self, stream: RawStream) -> usize {
        let known = self.streams.iter().position(|known| *known == stream);
        known.unwrap_or_else(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        })
    }
}

/// Notes calls until it is dropped.
#[must_use = "dropping it stops the notes"]
pub(crate) struct Noting<'a>(&'a Tape);

impl Noting<'_> {
    /// What was noted so far, and no more.
    pub(crate) fn finish(self) -> Entries {
        let run = std::mem::take(&mut self.0.lock().run);
        Entries(run.entries)
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.mode = Mode::Off;
        state.run = Run::default();
    }
}

/// What a graph is after a rehearsal.
pub(crate) enum Rehearsed {
    /// It replays what was rehearsed.
    Done,
    /// As it was: it takes a capture.
    NeedsCapture,
}

/// Why a graph does not replay what was rehearsed.
pub(crate) enum Unchanged {
    /// It is no update of it.
    Differs(Difference),
    /// A call failed; `broken` where the graph could not be put back, and is now neither one nor the other.
    Failed { error: DriverError, broken: bool },
}

impl Tape {
    pub(crate) fn new(inner: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            state: Mutex::default(),
        })
    }

    /// A thread that panicked in here, which none should, left a run that is thrown away.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes calls on and notes them.
    pub(crate) fn capture(&self) -> Noting<'_> {
        self.start(Mode::Capture)
    }

    /// Notes calls, and makes none.
    pub(crate) fn rehearse(&self) -> Noting<'_> {
        self.start(Mode::Rehearsal)
    }

    fn start(&self, mode: Mode) -> Noting<'_> {
        let mut state = self.lock();
        state.mode = mode;
        state.run = Run::default();
        Noting(self)
    }

    /// The graph was captured from these calls.
    pub(crate) fn captured(&self, entries: Entries) {
        self.lock().captured = entries;
    }

    /// Takes over what the graph of another tape was captured from.
    pub(crate) fn continue_from(&self, other: &Self) {
        self.captured(std::mem::take(&mut other.lock().captured));
    }

    /// Compares a second capture with the first, before the graph is updated to it.
    pub(crate) fn compare(&self, entries: &Entries) -> Result<(), Difference> {
        self.lock().captured.changes(entries).map(drop)
    }

    /// The graph was updated to these calls, a second capture that compares.
    pub(crate) fn updated(&self, mut entries: Entries) {
        let mut state = self.lock();
        entries.take_nodes(&state.captured);
        state.captured = entries;
    }

    /// Makes the graph replay what was rehearsed, where that takes its launches only; where a call fails, puts it back.
    ///
    /// # Safety
    /// `graph` was made from the capture that this tape noted, is live, and no other thread uses it now. `rehearsed` comes from a
    /// rehearsal of this tape, and what its launches name is live and not in conflict with any unordered access at every later replay,
    /// and so is what those name that they replace.
    pub(crate) unsafe fn apply(
        &self,
        graph: RawGraph,
        mut rehearsed: Entries,
    ) -> Result<Rehearsed, Unchanged> {
        let mut state = self.lock();
        let captured = &state.captured;
        // A rehearsal ends at a foreign call, which it cannot make.
        let foreign = rehearsed.foreign();
        let changes = match foreign {
            Some(_) => Changes::default(),
            None => captured.changes(&rehearsed).map_err(Unchanged::Differs)?,
        };
        if let Some(place) = foreign.or(changes.capture) {
            if !captured.allocates() {
                return Ok(Rehearsed::NeedsCapture);
            }
            let why = format!(
                "is {} that may have changed, and in a graph that allocates only launches can",
                rehearsed.0[place]
            );
            let operation = rehearsed.operation(place);
            return Err(Unchanged::Differs(Difference { operation, why }));
        }
        for (done, &place) in changes.launches.iter().enumerate() {
            // SAFETY: the caller's.
            let set = unsafe { self.set(graph, captured, place, &rehearsed) };
            if let Err(error) = set {
                // With the one that failed: that a call which fails changes nothing is written nowhere.
                let mut back = changes.launches[..=done].iter();
                // SAFETY: as above.
                let broken =
                    !back.all(|&place| unsafe { self.set(graph, captured, place, captured) }.is_ok());
                return Err(Unchanged::Failed { error, broken });
            }
        }
        rehearsed.take_nodes(captured);
        state.captured = rehearsed;
        Ok(Rehearsed::Done)
    }

    /// Gives the node of one launch the arguments that it has in `from`.
    ///
    /// # Safety
    /// As [`apply`](Self::apply), for that launch.
    unsafe fn set(
        &self,
        graph: RawGraph,
        captured: &Entries,
        place: usize,
        from: &Entries,
    ) -> DriverResult<()> {
        let (Some(Launch { node: Some(node), .. }), Some(new)) = (captured.launch(place), from.launch(place))
        else {
            unreachable!("a change of a launch whose node is known");
        };
        let values: Vec<*const c_void> = new.parameters.values().map(|(value, _)| value).collect();
        // SAFETY: the caller's; one pointer for each parameter, to a live value.
        unsafe {
            self.inner
                .set_launch(graph, *node, new.parameters.kernel(), &new.shape, &values)
        }
    }

    /// Makes a call, or pretends to, and notes it.
    fn pass<T>(
        &self,
        call: impl FnOnce(&dyn Driver) -> DriverResult<T>,
        pretend: impl FnOnce(&State) -> T,
        note: impl FnOnce(&mut Run, &T) -> Entry,
    ) -> DriverResult<T> {
        let mut state = self.lock();
        let result = match state.mode {
            Mode::Off => {
                drop(state);
                return call(&*self.inner);
            }
            // Under the lock, so that the order of the notes is that of the calls.
            Mode::Capture => call(&*self.inner)?,
            Mode::Rehearsal => pretend(&state),
        };
        let entry = note(&mut state.run, &result);
        state.run.entries.push(entry);
        Ok(result)
    }

    fn pass_copy(
        &self,
        (kind, to, from, bytes): (Copied, u64, u64, usize),
        stream: RawStream,
        call: impl FnOnce(&dyn Driver) -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.pass(
            call,
            |_| (),
            |run, ()| Entry::Copy {
                stream: run.stream(stream),
                kind,
                to,
                from,
                bytes,
            },
        )
    }

    /// # Safety
    /// As [`Driver::launch`].
    unsafe fn pass_launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
        padded: bool,
    ) -> DriverResult<()> {
        self.pass(
            |inner| {
                // SAFETY: the caller's.
                unsafe { inner.launch(kernel, shape, parameters, stream) }?;
                // Only tells: without it a launch takes a capture to change.
                // SAFETY: the caller's.
                Ok(unsafe { inner.captured_node(stream) }.ok())
            },
            |_| None,
            |run, node| {
                Entry::Launch(Launch {
                    stream: run.stream(stream),
                    shape: *shape,
                    // SAFETY: the caller's.
                    parameters: unsafe { Packed::new(kernel, parameters) },
                    padded,
                    node: *node,
                })
            },
        )
        .map(drop)
    }
}

/// An address that is no memory's, for a rehearsal that allocates what its capture did not: no launch of it is ever made.
const NOWHERE: DeviceAddress = DeviceAddress(1 << 20);

fn number(address: NonNull<c_void>) -> u64 {
    address.addr().get() as u64
}

// SAFETY: as `inner`, to which calls are passed on as they are; in a rehearsal nothing is enqueued, and nothing is waited for: what
// is noted is made later by `apply`, or not at all.
unsafe impl Driver for Tape {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn simulator(&self) -> Option<&sim::Simulator> {
        self.inner.simulator()
    }

    fn is_checked(&self) -> bool {
        self.inner.is_checked()
    }

    fn races(&self) -> Vec<Race> {
        self.inner.races()
    }

    fn note(&self, note: Note<'_>) {
        self.inner.note(note);
    }

    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        self.inner.begin_trace()
    }

    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        self.inner.memory_info()
    }

    fn create_stream(&self, priority: i32) -> DriverResult<RawStream> {
        self.inner.create_stream(priority)
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.destroy_stream(stream) }
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.synchronize_stream(stream) }
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> DriverResult<()> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.wait_event(stream, event) },
            |_| (),
            |run, ()| Entry::Wait {
                stream: run.stream(stream),
                record: run.records.get(&event).copied(),
            },
        )
    }

    fn create_event(&self, timing: bool) -> DriverResult<RawEvent> {
        self.inner.create_event(timing)
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.destroy_event(event) }
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> DriverResult<()> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.record_event(event, stream) },
            |_| (),
            |run, ()| {
                run.records.insert(event, run.entries.len());
                Entry::Record {
                    stream: run.stream(stream),
                }
            },
        )
    }

    unsafe fn query_event(&self, event: RawEvent) -> DriverResult<bool> {
        // SAFETY: the caller's.
        unsafe { self.inner.query_event(event) }
    }

    unsafe fn synchronize_event(&self, event: RawEvent) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.synchronize_event(event) }
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
        // SAFETY: the caller's.
        unsafe { self.inner.elapsed_ms(start, end) }
    }

    unsafe fn alloc(&self, bytes: usize, stream: RawStream) -> DriverResult<DeviceAddress> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.alloc(bytes, stream) },
            |state| match state.captured.0.get(state.run.entries.len()) {
                // The graph's own, which it allocates at this place of each replay.
                Some(Entry::Alloc {
                    bytes: same, address, ..
                }) if *same == bytes => *address,
                _ => NOWHERE,
            },
            |run, address| Entry::Alloc {
                stream: run.stream(stream),
                bytes,
                address: *address,
            },
        )
    }

    unsafe fn free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.free(address, stream) },
            |_| (),
            |run, ()| Entry::Free {
                stream: run.stream(stream),
                address,
            },
        )
    }

    fn peer(&self) -> RawPeer {
        self.inner.peer()
    }

    fn peer_access(&self, peer: RawPeer) -> DriverResult<PeerAccess> {
        self.inner.peer_access(peer)
    }

    fn communicator(&self, ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>> {
        self.inner.communicator(ranks)
    }

    unsafe fn copy_peer(
        &self,
        _destination: (RawPeer, DeviceAddress),
        _source: (RawPeer, DeviceAddress),
        _bytes: usize,
        _stream: RawStream,
    ) -> DriverResult<()> {
        // Streams of a capture copy within their device only: the typed API asks for a `Live` one.
        Err(DriverError::new(
            "cuMemcpyPeerAsync",
            ErrorCode::STREAM_CAPTURE_UNSUPPORTED,
        ))
    }

    fn pool_stats(&self) -> DriverResult<MemoryPoolStats> {
        self.inner.pool_stats()
    }

    fn reset_pool_peaks(&self) -> DriverResult<()> {
        self.inner.reset_pool_peaks()
    }

    fn set_release_threshold(&self, bytes: u64) -> DriverResult<()> {
        self.inner.set_release_threshold(bytes)
    }

    fn trim_pool(&self, keep_bytes: u64) -> DriverResult<()> {
        self.inner.trim_pool(keep_bytes)
    }

    unsafe fn register_host(&self, memory: &HostMemory) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.register_host(memory) }
    }

    unsafe fn unregister_host(&self, memory: &HostMemory) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.unregister_host(memory) }
    }

    unsafe fn copy_to_device(
        &self,
        destination: DeviceAddress,
        source: NonNull<c_void>,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let copied = (Copied::ToDevice, destination.0, number(source), bytes);
        self.pass_copy(copied, stream, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy_to_device(destination, source, bytes, stream) }
        })
    }

    unsafe fn copy_to_host(
        &self,
        destination: NonNull<c_void>,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let copied = (Copied::ToHost, number(destination), source.0, bytes);
        self.pass_copy(copied, stream, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy_to_host(destination, source, bytes, stream) }
        })
    }

    unsafe fn copy(
        &self,
        destination: DeviceAddress,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let copied = (Copied::Within, destination.0, source.0, bytes);
        self.pass_copy(copied, stream, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy(destination, source, bytes, stream) }
        })
    }

    unsafe fn fill(
        &self,
        destination: DeviceAddress,
        pattern: &[u8],
        count: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.fill(destination, pattern, count, stream) },
            |_| (),
            |run, ()| Entry::Fill {
                stream: run.stream(stream),
                to: destination,
                pattern: pattern.into(),
                count,
            },
        )
    }

    fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()> {
        self.inner.prepare(kernel)
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.pass_launch(kernel, shape, parameters, stream, false) }
    }

    unsafe fn launch_padded(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.pass_launch(kernel, shape, parameters, stream, true) }
    }

    fn foreign(
        &self,
        name: &'static str,
        stream: RawStream,
        uses: &[ForeignUse],
        body: &mut dyn FnMut(),
    ) -> DriverResult<()> {
        let mut state = self.lock();
        if state.mode != Mode::Off {
            let stream = state.run.stream(stream);
            state.run.entries.push(Entry::Foreign { stream, name });
        }
        if state.mode == Mode::Rehearsal {
            // The stream is not being captured: what the body enqueued would run.
            return Err(DriverError::with_detail(
                "cuStreamIsCapturing",
                ErrorCode::NOT_SUPPORTED,
                "a rehearsal makes no foreign calls",
            ));
        }
        // The body may call this driver.
        drop(state);
        self.inner.foreign(name, stream, uses, body)
    }

    unsafe fn begin_capture(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.begin_capture(stream) }
    }

    unsafe fn end_capture(&self, stream: RawStream) -> DriverResult<RawGraph> {
        // SAFETY: the caller's.
        unsafe { self.inner.end_capture(stream) }
    }

    unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode> {
        // SAFETY: the caller's.
        unsafe { self.inner.captured_node(stream) }
    }

    unsafe fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.update_graph(graph, stream) }
    }

    unsafe fn set_launch(
        &self,
        graph: RawGraph,
        node: RawNode,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
    ) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.set_launch(graph, node, kernel, shape, parameters) }
    }

    unsafe fn launch_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.launch_graph(graph, stream) }
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.destroy_graph(graph) }
    }
}
