//! Traces for Perfetto and chrome://tracing, in the Trace Event Format.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::lanes::lanes;
use super::{Cause, Timeline};

/// Processes of the trace: what the viewers group rows by.
const DEVICE: u32 = 1;
const HOST: u32 = 2;

/// The format's times are in µs; three decimals keep the ns.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl Timeline {
    /// Writes the timeline as JSON that <https://ui.perfetto.dev> and `chrome://tracing` open: streams and host threads as
    /// threads of two processes, and an arrow from what a stream waited for to what it did then.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_trace(&self, out: impl Write) -> io::Result<()> {
        let mut events = Events { out, first: true };
        events
            .out
            .write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
        let about =
            json!({ "device": self.device, "times": self.source.describe(), "missing": self.missing });
        serde_json::to_writer(&mut events.out, &about)?;
        events.out.write_all(b",\"traceEvents\":[\n")?;

        let device = format!("{} ({})", self.device, self.source.describe());
        for (process, name) in [(DEVICE, device.as_str()), (HOST, "host")] {
            events.metadata(process, 0, "process_name", json!({ "name": name }))?;
            events.metadata(process, 0, "process_sort_index", json!({ "sort_index": process }))?;
        }
        // Where each span went: its process and thread.
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
                events.metadata(process, id, "thread_name", json!({ "name": name }))?;
                events.metadata(process, id, "thread_sort_index", json!({ "sort_index": id }))?;
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
        let mut args = serde_json::Map::new();
        if span.bytes > 0 {
            args.insert("bytes".into(), json!(span.bytes));
            if span.duration_ns() > 0 {
                let rate = span.bytes as f64 / span.duration_ns() as f64;
                args.insert("GB/s".into(), json!((rate * 100.0).round() / 100.0));
            }
        }
        if let Some(row) = span.waits_for {
            args.insert("waits for".into(), json!(self.rows[row].name));
        }
        if span.short_label() != span.label {
            args.insert("path".into(), json!(span.label));
        }
        events.write(&json!({
            "ph": "X", "pid": process, "tid": thread, "cat": span.kind.name(), "name": span.short_label(),
            "ts": us(span.start_ns), "dur": us(span.duration_ns()), "args": args,
        }))
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
                events.write(&json!({
                    "ph": phase, "pid": process, "tid": thread, "id": id, "cat": "wait", "name": "wait",
                    "ts": us(ns), "bp": "e",
                }))?;
            }
        }
        Ok(())
    }
}

/// A JSON array that is written an element at a time.
struct Events<W> {
    out: W,
    first: bool,
}

impl<W: Write> Events<W> {
    fn write(&mut self, event: &Value) -> io::Result<()> {
        if !std::mem::replace(&mut self.first, false) {
            self.out.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    fn metadata(&mut self, process: u32, thread: u32, name: &str, args: Value) -> io::Result<()> {
        self.write(&json!({ "ph": "M", "pid": process, "tid": thread, "name": name, "args": args }))
    }
}
