//! [`Recording`]: a recording in progress, from its start to its timeline.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::events::{EventLog, Logged};
use super::host_clock::HostClock;
use super::scope;
use super::session::{Collected, Session};
use crate::device::Device;
use crate::error::{During, Error, Result};
use crate::order::stream_ref::{StreamId, StreamRef};
use crate::tag::Live;
use cuda_rt_driver::Kind;
use cuda_rt_driver::{RawStream, Traced};
use cuda_rt_simulator::{Simulator, SpanKind};
use cuda_rt_timeline::{Row, Source, Span, Timeline};

/// A recording of a device. Dropping it throws the recording away.
///
/// ```
/// use cuda_rt::timeline;
///
/// cuda_rt::streams! { pub Upload; pub Compute; }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let (upload, compute) = (gpu.stream::<Upload>()?, gpu.stream::<Compute>()?);
/// let recording = gpu.record_timeline()?;
/// {
///     let _stage = timeline::scope("prepare"); // a row of the host
///     let data = upload.alloc_from_slice(&[1.0_f32; 4096])?;
///     let mut data = compute.acquire(upload.release(data)?)?;
///     compute.fill(&mut data[..100], 2.0)?;
/// }
/// let timeline = recording.finish()?; // waits for the recorded work
/// println!("{}", timeline.gantt(80));
/// assert!(timeline.spans().iter().any(|span| span.label.contains("prepare")));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[must_use = "dropping a recording throws it away; `finish` it"]
pub struct Recording<D> {
    device: Device<D>,
    session: Arc<Session>,
}

impl<D> fmt::Debug for Recording<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl<D: Live> Device<D> {
    /// Starts to record the work of this device. On CUDA the times come from CUPTI, if the feature
    /// `cupti` is on and CUPTI can be loaded; the first recording with CUPTI takes some hundred
    /// milliseconds to start. Otherwise each operation gets two timing events (`cuEventRecord`),
    /// and the start blocks for some tens of microseconds to compare the clocks of device and host.
    /// Order and results of the work do not change.
    ///
    /// On a simulated device the spans come from [`Simulator::record_spans`].
    ///
    /// # Errors
    /// [`Error::AlreadyRecording`], and [`Error::Driver`] if the device cannot be timed.
    pub fn record_timeline(&self) -> Result<Recording<D>> {
        if let Some(simulator) = self.simulator() {
            let clock = HostClock::Modelled(simulator.clone(), 0);
            let (log, events) = (EventLog::default(), self.core().events());
            return self.start_recording(Session::new(events, clock, Source::Model, log, None));
        }
        if !self.core().observed().is_on()
            && let Some(trace) = self.core().tools().begin_trace()
        {
            let clock = HostClock::Real(Instant::now());
            let (log, events) = (EventLog::default(), self.core().events());
            let session = Session::new(events, clock, Source::Cupti, log, Some(trace));
            return self.start_recording(session);
        }
        self.record_timeline_by_events()
    }

    /// Like [`record_timeline`](Self::record_timeline), but always with timing events: instead of
    /// CUPTI, and also on a simulated device, where the events cost modelled time. For tests, and
    /// to measure the cost of the events.
    ///
    /// # Errors
    /// As [`record_timeline`](Self::record_timeline).
    pub fn record_timeline_by_events(&self) -> Result<Recording<D>> {
        let core = self.core();
        let (log, clock) = EventLog::begin(core.events(), core.stream_for_frees(), self.simulator())
            .during("Device::record_timeline")?;
        self.start_recording(Session::new(core.events(), clock, Source::Events, log, None))
    }

    fn start_recording(&self, session: Session) -> Result<Recording<D>> {
        let session = Arc::new(session);
        if !self.core().observed().start(Arc::<Session>::clone(&session)) {
            return Err(Error::AlreadyRecording);
        }
        if let (Some(simulator), false) = (self.simulator(), session.source() == Source::Events) {
            simulator.record_spans(false);
            simulator.record_spans(true);
        }
        scope::listen(&session);
        Ok(Recording {
            device: self.clone(),
            session,
        })
    }

    /// Like [`timeline::scope`](super::scope()), for the recording of this device only.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let recording = gpu.record_timeline_by_events()?;
    /// let stage = gpu.scope("clear"); // in the recording of this device only
    /// let data = compute.alloc_zeroed::<f32>(4096)?;
    /// drop(stage);
    /// assert!(recording.finish()?.spans().iter().any(|span| span.label == "clear"));
    /// # drop(data);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn scope(&self, name: impl Into<std::borrow::Cow<'static, str>>) -> super::Scope {
        let mut scope = super::Scope::begin(name.into());
        if self.core().observed().is_on() {
            scope.tell_each(|session| session.records(self.core().events()));
        }
        scope
    }
}

impl<D: Live> Recording<D> {
    /// Ends the recording, and blocks until its work is done. The call does not wait for work of
    /// [adopted](Device::adopt_stream) streams: wait for that work first. With CUPTI it is shown
    /// under "other streams".
    ///
    /// # Errors
    /// [`Error::Driver`] if the wait for the work fails.
    pub fn finish(self) -> Result<Timeline> {
        const DURING: &str = "Recording::finish";
        let core = self.device.core();
        core.observed().stop();
        let streams = self.session.collected().streams.clone();
        // An adopted stream may be destroyed by now.
        for (at, _) in streams.iter().filter(|(at, _)| !at.is_adopted()) {
            let end = core.events().record(*at, false).during(DURING)?;
            end.synchronize().during(DURING)?;
        }
        let mut collected = std::mem::take(&mut *self.session.collected());
        let named = |at: &StreamRef| {
            core.find_stream_state(at.id())
                .map(|state| state.name().to_owned())
        };
        let mut rows = Rows::new(&collected, named);
        let mut spans = Vec::new();
        let simulator = self.device.simulator();
        match (simulator, collected.trace.take()) {
            (_, Some(trace)) => {
                let streams: Vec<_> = collected.streams.iter().map(|(at, _)| *at).collect();
                let found = core.finish_trace(trace, &streams);
                traced(found, &mut collected, &mut rows, &mut spans);
            }
            (Some(simulator), None) if self.session.source() == Source::Model => {
                modelled(simulator, &mut rows, &mut spans);
            }
            _ => {
                collected.log.read_all();
                measured(&collected, &rows, &mut spans);
            }
        }
        add_waits(&collected.log, &rows, &mut spans);
        // A simulated device models its times, even with events.
        let source = simulator.map_or(self.session.source(), |_| Source::Model);
        let missing = collected.log.missing();
        rows.add_host(collected, &mut spans);
        let origin = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
        for span in &mut spans {
            span.start_ns -= origin;
            span.end_ns -= origin;
        }
        let device = self.device.properties().name.clone();
        Ok(Timeline::new(device, source, rows.rows, spans).with_missing(missing))
    }
}

impl<D> Drop for Recording<D> {
    fn drop(&mut self) {
        let observed = self.device.core().observed();
        // A finished recording has stopped already, and another may have started since.
        if observed.tells(&self.session) {
            observed.stop();
        }
        scope::unlisten(&self.session);
        if let (Some(simulator), false) = (self.device.simulator(), self.session.source() == Source::Events) {
            simulator.record_spans(observed.is_on());
        }
    }
}

/// The rows of a timeline, and the row of each stream.
struct Rows {
    rows: Vec<Row>,
    of_stream: HashMap<StreamId, usize>,
    of_raw: HashMap<RawStream, usize>,
    of_others: Option<usize>,
}

impl Rows {
    /// `named` gives the name of a stream that is known at run time, if it is still held.
    fn new(collected: &Collected, named: impl Fn(&StreamRef) -> Option<String>) -> Self {
        let mut rows = Self {
            rows: Vec::new(),
            of_stream: HashMap::new(),
            of_raw: HashMap::new(),
            of_others: None,
        };
        for (at, tag) in &collected.streams {
            let name = named(at).unwrap_or_else(|| stream_name(tag));
            let same = |row: &&Row| row.name == name || row.name.starts_with(&format!("{name} #"));
            let before = rows.rows.iter().filter(same).count();
            let name = if before == 0 {
                name
            } else {
                format!("{name} #{}", before + 1)
            };
            rows.of_stream.insert(at.id(), rows.rows.len());
            rows.of_raw.insert(at.handle(), rows.rows.len());
            rows.rows.push(Row { name, is_host: false });
        }
        rows
    }

    /// The row of a simulated device's stream, which the typed API may not know.
    fn raw(&mut self, raw: RawStream) -> usize {
        let rows = &mut self.rows;
        *self.of_raw.entry(raw).or_insert_with(|| {
            let name = format!("stream {:#x}", raw.0);
            rows.push(Row { name, is_host: false });
            rows.len() - 1
        })
    }

    /// The row of the work on streams that the typed API does not know.
    fn unknown(&mut self) -> usize {
        *self.of_others.get_or_insert_with(|| {
            let name = "other streams".to_owned();
            self.rows.push(Row { name, is_host: false });
            self.rows.len() - 1
        })
    }

    /// Adds the host's rows, in the order in which the threads appeared, and its spans.
    fn add_host(&mut self, collected: Collected, spans: &mut Vec<Span>) {
        let first = self.rows.len();
        let mut threads: Vec<_> = collected.threads.values().collect();
        threads.sort_by_key(|(number, _)| *number);
        for (number, name) in threads {
            let name = name.clone().unwrap_or_else(|| format!("thread {}", number + 1));
            self.rows.push(Row { name, is_host: true });
        }
        spans.extend(collected.host.into_iter().map(|span| Span {
            kind: span.kind,
            label: span.label,
            row: first + collected.threads[&span.thread].0,
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            bytes: 0,
            waits_for: span.on.and_then(|stream| self.of_stream.get(&stream).copied()),
        }));
    }
}

/// The tag's own name: the last part of its path, without its parameters.
fn stream_name(tag: &str) -> String {
    let path = tag.split('<').next().unwrap_or(tag);
    path.rsplit("::").next().unwrap_or(path).to_owned()
}

fn modelled(simulator: &Simulator, rows: &mut Rows, spans: &mut Vec<Span>) {
    for span in simulator.take_spans() {
        spans.push(Span {
            kind: match span.kind {
                SpanKind::CopyToDevice => Kind::CopyToDevice,
                SpanKind::CopyToHost => Kind::CopyToHost,
                SpanKind::Copy => Kind::Copy,
                SpanKind::CopyPeer | SpanKind::Collective => Kind::CopyPeer,
                SpanKind::Fill => Kind::Fill,
                SpanKind::Kernel => Kind::Kernel,
            },
            label: span.label.into(),
            row: rows.raw(span.stream),
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            bytes: span.bytes,
            waits_for: None,
        });
    }
    for wait in simulator.take_waits() {
        // A stream without a row has no work that a wait could hold back, for example the stream
        // that frees memory.
        let row = |stream| rows.of_raw.get(&stream).copied();
        if let (Some(row), Some(on)) = (row(wait.stream), row(wait.waits_for)) {
            spans.push(wait_span(row, wait.start_ns, wait.end_ns, on));
        }
    }
}

/// Adds the spans of work timed by events.
fn measured(collected: &Collected, rows: &Rows, spans: &mut Vec<Span>) {
    for (at, _) in &collected.streams {
        for logged in collected.log.of_stream(at.id()) {
            let Some((start_ns, end_ns)) = logged.times_ns else {
                continue;
            };
            spans.push(Span {
                kind: logged.operation.kind,
                label: logged.operation.label.into(),
                row: rows.of_stream[&at.id()],
                start_ns,
                end_ns,
                bytes: logged.operation.bytes,
                waits_for: None,
            });
        }
    }
}

/// Adds the spans of traced work. If a stream has as many traced calls as logged operations, they
/// are matched in order. The spans then get the operations' names, and the waits their times.
fn traced(found: Vec<Traced>, collected: &mut Collected, rows: &mut Rows, spans: &mut Vec<Span>) {
    let mut of_streams: Vec<Vec<Traced>> = vec![Vec::new(); collected.streams.len()];
    for traced in found {
        match traced.stream {
            Some(stream) => of_streams[stream].push(traced),
            None => spans.push(traced_span(traced, rows.unknown())),
        }
    }
    for ((at, _), of_stream) in collected.streams.iter().zip(of_streams) {
        let mut calls: Vec<(u32, usize, (u64, u64))> = Vec::new();
        for traced in &of_stream {
            match calls.last_mut() {
                Some((call, count, (_, end_ns))) if *call == traced.call => {
                    (*count, *end_ns) = (*count + 1, traced.end_ns.max(*end_ns));
                }
                _ => calls.push((traced.call, 1, (traced.start_ns, traced.end_ns))),
            }
        }
        let times: Vec<_> = calls.iter().map(|(.., times)| *times).collect();
        let matched = collected.log.time(at.id(), &times);
        let mut operations = collected.log.of_stream(at.id()).iter();
        let mut of_stream = of_stream.into_iter();
        for (_, count, _) in calls {
            let operation = operations.next().filter(|_| matched && count == 1);
            for traced in of_stream.by_ref().take(count) {
                let mut span = traced_span(traced, rows.of_stream[&at.id()]);
                if let Some(Logged { operation, .. }) = operation.filter(|of| of.operation.kind == span.kind)
                {
                    span.label = operation.label.into();
                }
                spans.push(span);
            }
        }
    }
}

fn traced_span(traced: Traced, row: usize) -> Span {
    Span {
        kind: traced.kind,
        label: traced.label.into(),
        row,
        start_ns: traced.start_ns,
        end_ns: traced.end_ns,
        bytes: traced.bytes,
        waits_for: None,
    }
}

fn add_waits(log: &EventLog, rows: &Rows, spans: &mut Vec<Span>) {
    let row = |stream: StreamId| rows.of_stream.get(&stream).copied();
    for (stream, start_ns, end_ns, on) in log.waits() {
        if let (Some(row), Some(on)) = (row(stream), row(on)) {
            spans.push(wait_span(row, start_ns, end_ns, on));
        }
    }
}

fn wait_span(row: usize, start_ns: u64, end_ns: u64, on: usize) -> Span {
    Span {
        kind: Kind::Wait,
        label: Kind::Wait.name().into(),
        row,
        start_ns,
        end_ns,
        bytes: 0,
        waits_for: Some(on),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::observer::Operation;
    use crate::order::stream_ref::StreamRef;

    fn found(stream: impl Into<Option<usize>>, kind: Kind, start_ns: u64, end_ns: u64, call: u32) -> Traced {
        Traced {
            stream: stream.into(),
            kind,
            label: "entry".into(),
            start_ns,
            end_ns,
            bytes: 8,
            call,
        }
    }

    /// The stream `Upload` has two copies. The stream `Compute` has a kernel, a wait for the second
    /// copy, and a graph.
    fn collected() -> Collected {
        let at = |raw| StreamRef::without_clock(RawStream(raw));
        let streams = vec![(at(1), "example::Upload<Gpu<0>>"), (at(2), "example::Compute")];
        let (upload, compute) = (streams[0].0.id(), streams[1].0.id());
        let operation = |kind, label| Operation {
            kind,
            label,
            bytes: 0,
        };
        let mut log = EventLog::default();
        log.operation(upload, operation(Kind::CopyToDevice, "copy to device"), None);
        log.operation(compute, operation(Kind::Kernel, "path::kernel"), None);
        log.operation(upload, operation(Kind::CopyToDevice, "copy to device"), None);
        let event = cuda_rt_driver::RawEvent(7);
        log.record(upload, event);
        log.wait(compute, event);
        log.operation(compute, operation(Kind::Graph, "graph"), None);
        Collected {
            streams,
            log,
            ..Collected::default()
        }
    }

    fn spans(found: Vec<Traced>) -> (Rows, Vec<Span>, u64) {
        let mut collected = collected();
        let (mut rows, mut spans) = (Rows::new(&collected, |_| None), Vec::new());
        traced(found, &mut collected, &mut rows, &mut spans);
        add_waits(&collected.log, &rows, &mut spans);
        (rows, spans, collected.log.missing())
    }

    #[test]
    fn traced_calls_are_the_operations_in_their_order() {
        let (rows, spans, missing) = spans(vec![
            found(0, Kind::CopyToDevice, 0, 10, 1),
            found(1, Kind::Kernel, 5, 15, 2),
            found(0, Kind::CopyToDevice, 10, 40, 3),
            found(1, Kind::Kernel, 42, 50, 4),
            found(1, Kind::Kernel, 42, 60, 4),
            found(None, Kind::Fill, 70, 80, 5),
        ]);
        let names: Vec<_> = rows.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!((names, missing), (vec!["Upload", "Compute", "other streams"], 0));
        let told: Vec<_> = spans
            .iter()
            .map(|span| (span.row, span.label.as_ref(), span.start_ns))
            .collect();
        let expected = [
            (2, "entry", 70),
            (0, "copy to device", 0),
            (0, "copy to device", 10),
            (1, "path::kernel", 5),
            (1, "entry", 42),
            (1, "entry", 42),
            (1, "wait", 15),
        ];
        assert_eq!(told, expected, "nodes of a graph have names of their own");
        assert_eq!((spans[6].end_ns, spans[6].waits_for), (40, Some(0)));
    }

    #[test]
    fn calls_that_do_not_match_keep_their_times_and_lose_their_waits() {
        let (_, spans, missing) = spans(vec![
            found(0, Kind::CopyToDevice, 0, 10, 1),
            found(0, Kind::CopyToDevice, 10, 40, 3),
            found(1, Kind::Kernel, 42, 50, 4),
        ]);
        assert_eq!((spans.len(), missing), (3, 2));
        assert!(spans.iter().all(|span| span.kind != Kind::Wait));
        assert_eq!(spans[2].label, "entry");
    }
}
