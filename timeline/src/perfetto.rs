//! Traces for Perfetto and chrome://tracing, in the Trace Event Format.

use std::io::{self, Write};

use super::json::Object;
use super::lanes::lanes;
use super::{Cause, Timeline};

/// Processes of the trace; viewers group rows by process.
const DEVICE: u32 = 1;
const HOST: u32 = 2;

/// The format's times are in µs; three decimals keep the nanoseconds.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl Timeline {
    /// Writes the timeline as JSON that <https://ui.perfetto.dev> and `chrome://tracing` open:
    /// streams and host threads are threads of two processes. An arrow leads from the operation
    /// that a stream waited for to the stream's next operation.
    ///
    /// # Errors
    /// Errors of writing to `out`.
    pub fn write_trace(&self, out: impl Write) -> io::Result<()> {
        let mut events = Events { out, first: true };
        events
            .out
            .write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
        let about = Object::new()
            .string("device", &self.device)
            .string("times", self.source.describe())
            .integer("missing", self.missing);
        events.out.write_all(about.finish().as_bytes())?;
        events.out.write_all(b",\"traceEvents\":[\n")?;

        let device = format!("{} ({})", self.device, self.source.describe());
        for (process, name) in [(DEVICE, device.as_str()), (HOST, "host")] {
            events.name(process, 0, "process_name", name)?;
            events.sort_index(process, 0, "process_sort_index", process)?;
        }
        // The process and thread of each span.
        let mut places = vec![(DEVICE, 0); self.spans.len()];
        let mut thread = 0_u32;
        for (index, row) in self.rows.iter().enumerate() {
            let process = if row.is_host { HOST } else { DEVICE };
            let range = self.row_range(index);
            let (lane_of, count) = lanes(&self.spans[range.clone()], row.is_host);
            for lane in 0..count as u32 {
                let name = match lane {
                    0 => row.name.clone(),
                    _ => format!("{} ({})", row.name, lane + 1),
                };
                let id = thread + lane + 1;
                events.name(process, id, "thread_name", &name)?;
                events.sort_index(process, id, "thread_sort_index", id)?;
            }
            for (span, lane) in range.clone().zip(lane_of) {
                places[span] = (process, thread + lane as u32 + 1);
                self.write_span(&mut events, span, places[span])?;
            }
            thread += count as u32;
        }
        self.write_arrows(&mut events, &places)?;
        events.out.write_all(b"\n]}\n")?;
        events.out.flush()
    }

    fn write_span(
        &self,
        events: &mut Events<impl Write>,
        span: usize,
        (process, thread): (u32, u32),
    ) -> io::Result<()> {
        let span = &self.spans[span];
        let mut args = Object::new();
        if span.bytes > 0 {
            args = args.integer("bytes", span.bytes);
            if span.duration_ns() > 0 {
                let rate = span.bytes as f64 / span.duration_ns() as f64;
                args = args.number("GB/s", (rate * 100.0).round() / 100.0);
            }
        }
        if let Some(row) = span.waits_for {
            args = args.string("waits for", &self.rows[row].name);
        }
        if span.short_label() != span.label {
            args = args.string("path", &span.label);
        }
        events.write(
            at("X", process, thread)
                .string("cat", span.kind.name())
                .string("name", span.short_label())
                .number("ts", us(span.start_ns))
                .number("dur", us(span.duration_ns()))
                .object("args", args),
        )
    }

    fn write_arrows(&self, events: &mut Events<impl Write>, places: &[(u32, u32)]) -> io::Result<()> {
        for (id, gap) in self.gaps().iter().enumerate() {
            let Cause::Wait { span: Some(from) } = gap.cause else {
                continue;
            };
            for (phase, span, ns) in [
                ("s", from, self.spans[from].start_ns),
                ("f", gap.before, self.spans[gap.before].start_ns),
            ] {
                let (process, thread) = places[span];
                events.write(
                    at(phase, process, thread)
                        .integer("id", id as u64)
                        .string("cat", "wait")
                        .string("name", "wait")
                        .number("ts", us(ns))
                        .string("bp", "e"),
                )?;
            }
        }
        Ok(())
    }
}

/// A JSON array, written element by element.
struct Events<W> {
    out: W,
    first: bool,
}

impl<W: Write> Events<W> {
    fn write(&mut self, event: Object) -> io::Result<()> {
        if !std::mem::replace(&mut self.first, false) {
            self.out.write_all(b",\n")?;
        }
        self.out.write_all(event.finish().as_bytes())
    }

    fn name(&mut self, process: u32, thread: u32, what: &str, name: &str) -> io::Result<()> {
        self.metadata(process, thread, what, Object::new().string("name", name))
    }

    fn sort_index(&mut self, process: u32, thread: u32, what: &str, index: u32) -> io::Result<()> {
        let args = Object::new().integer("sort_index", index.into());
        self.metadata(process, thread, what, args)
    }

    fn metadata(&mut self, process: u32, thread: u32, what: &str, args: Object) -> io::Result<()> {
        self.write(at("M", process, thread).string("name", what).object("args", args))
    }
}

/// The first members of an event: its phase, process and thread.
fn at(phase: &str, process: u32, thread: u32) -> Object {
    Object::new()
        .string("ph", phase)
        .integer("pid", process.into())
        .integer("tid", thread.into())
}
