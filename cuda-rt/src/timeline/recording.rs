//! [`Recording`]: from the start of a recording to its timeline.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::events::EventLog;
use super::recorder::{Collected, HostClock, Session};
use super::scope;
use super::{Kind, Row, Source, Span, Timeline};
use crate::device::Device;
use crate::driver::RawStream;
use crate::driver::sim::{Simulator, SpanKind};
use crate::error::{During, Error, Result};
use crate::fence::StreamId;
use crate::place::Live;

/// A device that is being recorded. Dropping it throws the recording away.
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
    /// Starts to record what this device does. On CUDA two timing events then go around each operation (`cuEventRecord`); order
    /// and results stay as they were. Blocks for some tens of microseconds, to set the clocks of device and host side by side.
    ///
    /// On a simulated device the spans of [`Simulator::record_spans`] are taken over.
    ///
    /// # Errors
    /// [`Error::AlreadyRecording`], and [`Error::Driver`] if the device cannot be timed.
    pub fn record_timeline(&self) -> Result<Recording<D>> {
        match self.simulator() {
            Some(simulator) => {
                let clock = HostClock::Modelled(simulator.clone(), 0);
                self.start_recording(Session::new(clock, None))
            }
            None => self.record_timeline_by_events(),
        }
    }

    /// As [`record_timeline`](Self::record_timeline), with timing events on a simulated device too. They cost modelled
    /// time there, as they cost time on CUDA: this is for testing, and for seeing what they cost.
    ///
    /// # Errors
    /// As [`record_timeline`](Self::record_timeline).
    pub fn record_timeline_by_events(&self) -> Result<Recording<D>> {
        let core = self.core();
        let (log, clock) = EventLog::begin(core.events(), core.reaper(), self.simulator())
            .during("Device::record_timeline")?;
        self.start_recording(Session::new(clock, Some(log)))
    }

    fn start_recording(&self, session: Session) -> Result<Recording<D>> {
        let session = Arc::new(session);
        if !self.core().events().recorder().start(&session) {
            return Err(Error::AlreadyRecording);
        }
        if let (Some(simulator), false) = (self.simulator(), session.has_marks()) {
            simulator.record_spans(false);
            simulator.record_spans(true);
        }
        scope::listen(&session);
        Ok(Recording {
            device: self.clone(),
            session,
        })
    }

    /// As [`timeline::scope`](super::scope()), for the recording of this device only.
    pub fn scope(&self, name: impl Into<std::borrow::Cow<'static, str>>) -> super::Scope {
        let recorder = self.core().events().recorder();
        let session = if recorder.is_on() {
            recorder.session()
        } else {
            None
        };
        scope::Scope::begin(name.into(), session)
    }
}

impl<D: Live> Recording<D> {
    /// Ends the recording, and blocks until the work that is in it is done.
    ///
    /// # Errors
    /// [`Error::Driver`] if the device fails while its work is waited for.
    pub fn finish(self) -> Result<Timeline> {
        const DURING: &str = "Recording::finish";
        let core = self.device.core();
        core.events().recorder().stop();
        let streams = self.session.collected().streams.clone();
        for (at, _) in &streams {
            let end = core.events().record(*at, false).during(DURING)?;
            end.synchronize().during(DURING)?;
        }
        let mut collected = std::mem::take(&mut *self.session.collected());
        let mut rows = Rows::new(&collected);
        let mut spans = Vec::new();
        let simulator = self.device.simulator();
        match simulator {
            Some(simulator) if !self.session.has_marks() => modelled(simulator, &mut rows, &mut spans),
            _ => {
                collected.log.read_all();
                measured(&collected.log, &rows, &mut spans);
            }
        }
        let source = simulator.map_or(Source::Events, |_| Source::Model);
        let missing = collected.log.missing();
        rows.add_host(collected, &mut spans);
        let origin = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
        for span in &mut spans {
            span.start_ns -= origin;
            span.end_ns -= origin;
        }
        Ok(Timeline {
            missing,
            ..Timeline::new(self.device.properties().name.clone(), source, rows.rows, spans)
        })
    }
}

impl<D> Drop for Recording<D> {
    fn drop(&mut self) {
        let recorder = self.device.core().events().recorder();
        // A finished one has stopped already, and another may have started since.
        if recorder
            .session()
            .is_some_and(|session| Arc::ptr_eq(&session, &self.session))
        {
            recorder.stop();
        }
        scope::unlisten(&self.session);
        if let (Some(simulator), false) = (self.device.simulator(), self.session.has_marks()) {
            simulator.record_spans(recorder.is_on());
        }
    }
}

/// Rows, and which stream is on which.
struct Rows {
    rows: Vec<Row>,
    of_stream: HashMap<StreamId, usize>,
    of_raw: HashMap<RawStream, usize>,
}

impl Rows {
    fn new(collected: &Collected) -> Self {
        let mut rows = Self {
            rows: Vec::new(),
            of_stream: HashMap::new(),
            of_raw: HashMap::new(),
        };
        for (at, tag) in &collected.streams {
            let name = stream_name(tag);
            let same = |row: &&Row| row.name == name || row.name.starts_with(&format!("{name} #"));
            let before = rows.rows.iter().filter(same).count();
            let name = if before == 0 {
                name
            } else {
                format!("{name} #{}", before + 1)
            };
            rows.of_stream.insert(at.id, rows.rows.len());
            rows.of_raw.insert(at.raw, rows.rows.len());
            rows.rows.push(Row { name, is_host: false });
        }
        rows
    }

    /// The row of a simulated device's stream, which may be one that the typed API does not know.
    fn raw(&mut self, raw: RawStream) -> usize {
        let rows = &mut self.rows;
        *self.of_raw.entry(raw).or_insert_with(|| {
            let name = format!("stream {:#x}", raw.0);
            rows.push(Row { name, is_host: false });
            rows.len() - 1
        })
    }

    /// Adds the host's rows, in the order in which the threads came, and spans.
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
        // A stream that has no work of its own is held back from none: the one that memory is freed on, say.
        let row = |stream| rows.of_raw.get(&stream).copied();
        if let (Some(row), Some(on)) = (row(wait.stream), row(wait.waits_for)) {
            spans.push(wait_span(row, wait.start_ns, wait.end_ns, on));
        }
    }
}

fn measured(log: &EventLog, rows: &Rows, spans: &mut Vec<Span>) {
    let row = |stream: StreamId| rows.of_stream.get(&stream).copied();
    for (stream, measured) in log.operations() {
        let Some(row) = row(stream) else { continue };
        spans.push(Span {
            kind: measured.operation.kind,
            label: measured.operation.label.into(),
            row,
            start_ns: measured.start_ns,
            end_ns: measured.end_ns,
            bytes: measured.operation.bytes,
            waits_for: None,
        });
    }
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
