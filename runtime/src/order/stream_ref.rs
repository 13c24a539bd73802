//! [`StreamRef`]: the form in which buffers and fences remember a stream.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::order::clocks::Clock;
use cuda_rt_driver::{DriverResult, RawStream};

/// The identity of a CUDA stream for the life of the process. It is a counter that is never reused,
/// unlike a CUDA handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(NonZeroU64);

impl StreamId {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // A counter needs no ordering.
        let next = NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed));
        Self(next.expect("no process creates 2^63 streams"))
    }

    /// The bit that marks an adopted stream, which another library owns.
    const ADOPTED: u64 = 1 << 63;

    /// The identity of an adopted stream. Another library owns it, and may destroy it once the
    /// adoption has ended.
    pub(crate) fn adopted() -> Self {
        Self(Self::new().0 | Self::ADOPTED)
    }

    /// The remainder of the identity by `of`, for a table of streams.
    #[inline]
    pub(crate) fn modulo(self, of: usize) -> usize {
        (self.bits() % of as u64) as usize
    }

    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.0.get()
    }

    /// The number of the stream, for a reader.
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "events alone say it"))]
    pub(crate) fn number(self) -> u64 {
        self.bits() & !Self::ADOPTED
    }

    /// The identity of these [`bits`](Self::bits).
    #[inline]
    pub(super) fn of_bits(bits: u64) -> Self {
        // No stream has 0, so nothing depends on this replacement.
        Self(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MAX))
    }

    #[inline]
    pub(crate) fn is_adopted(self) -> bool {
        self.bits() & Self::ADOPTED != 0
    }
}

/// A CUDA stream, as buffers remember it. It owns nothing: the device core keeps its streams.
///
/// # Invariants
/// STREAM-REF-1. Work reaches the stream through [`enqueue`](Self::enqueue), which tells the
/// stream's clock, or through a handle from [`expose`](Self::expose), which ends the clock's say.
/// The handle of [`handle`](Self::handle) and [`ask`](Self::ask) enqueues nothing; a test lists
/// their callers.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct StreamRef(Kind);

/// Two words: each buffer has one.
#[derive(Clone, Copy)]
enum Kind {
    /// A stream with a clock, which also has the stream's handle and identity. They are this
    /// stream's as long as its device lives (TABLE-1).
    Clocked(&'static Clock),
    /// A stream of a capture, an adopted stream, or a stream beyond the places of a table.
    Other(RawStream, StreamId),
}

const _: () = assert!(size_of::<StreamRef>() == 16);

impl fmt::Debug for StreamRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {:?}", self.id(), self.handle())
    }
}

impl StreamRef {
    /// The stream of `clock`.
    #[inline]
    pub(super) fn of(clock: &'static Clock) -> Self {
        Self(Kind::Clocked(clock))
    }

    /// A stream of a device, without a clock.
    pub(crate) fn without_clock(raw: RawStream) -> Self {
        Self(Kind::Other(raw, StreamId::new()))
    }

    /// A stream of another library.
    pub(crate) fn adopted(raw: RawStream) -> Self {
        Self(Kind::Other(raw, StreamId::adopted()))
    }

    #[inline]
    pub(crate) fn id(self) -> StreamId {
        match self.0 {
            Kind::Clocked(clock) => StreamId::of_bits(clock.id()),
            Kind::Other(_, id) => id,
        }
    }

    /// Whether another library owns the stream.
    #[inline]
    pub(crate) fn is_adopted(self) -> bool {
        match self.0 {
            Kind::Clocked(_) => false,
            Kind::Other(_, id) => id.is_adopted(),
        }
    }

    /// Does `work`, which enqueues work on the stream, and tells the stream's clock after it: also
    /// if it fails or unwinds, because it may have enqueued something.
    #[inline(always)]
    pub(crate) fn enqueue<T>(self, work: impl FnOnce(RawStream) -> T) -> T {
        let _worked = Worked(self.clock());
        work(self.handle())
    }

    /// Does `ask`, which enqueues nothing that a later record must cover: it waits for the stream,
    /// queries it, records an event there, begins or ends a capture, or destroys it.
    #[inline]
    pub(crate) fn ask<T>(self, ask: impl FnOnce(RawStream) -> T) -> T {
        ask(self.handle())
    }

    /// Does `wait`, which returns true once the host has seen all present work of the stream over,
    /// and tells the stream's clock.
    pub(crate) fn host_waits(self, wait: impl FnOnce(RawStream) -> DriverResult<bool>) -> DriverResult<bool> {
        let clock = self.clock().filter(|clock| clock.is_counted());
        let present = clock.map(Clock::present);
        let over = wait(self.handle())?;
        if let Some(present) = present.filter(|_| over) {
            present.seen_over();
        }
        Ok(over)
    }

    /// The handle, for names, tables and messages. No work is enqueued with it.
    #[inline]
    pub(crate) fn handle(self) -> RawStream {
        match self.0 {
            Kind::Clocked(clock) => clock.raw(),
            Kind::Other(raw, _) => raw,
        }
    }

    /// The handle, for other code, which may enqueue work with it at any time from now on.
    pub(crate) fn expose(self) -> RawStream {
        if let Some(clock) = self.clock() {
            clock.expose();
        }
        self.handle()
    }

    /// The stream's clock, also if not all work of the stream is known to it (SEEN-4).
    #[inline]
    pub(super) fn clock(&self) -> Option<&'static Clock> {
        match self.0 {
            Kind::Clocked(clock) => Some(clock),
            Kind::Other(..) => None,
        }
    }
}

/// The end of a call that may have enqueued work.
struct Worked(Option<&'static Clock>);

impl Drop for Worked {
    #[inline]
    fn drop(&mut self) {
        if let Some(clock) = self.0 {
            clock.worked();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{fs, io};

    /// The lines of the runtime that use a stream's handle without counting work, each with the
    /// reason why STREAM-REF-1 holds. A line of work goes through `enqueue` instead.
    const USES: [(&str, &str, &str); 24] = [
        (
            "collective/ranks.rs",
            "self.at().handle()",
            "`around` counts the collective",
        ),
        (
            "device/core.rs",
            "(place, at.handle())",
            "names a stream for a trace",
        ),
        ("device/core.rs", "destroy_stream", "destroys"),
        (
            "device/core.rs",
            ".fill(data.address(), &[0], 64, other",
            "a test of races",
        ),
        ("device/core.rs", ".copy_to_host(address, data", "a test of races"),
        ("device/mod.rs", "(at.handle(), S::NAME)", "names a stream"),
        ("device/mod.rs", "(at.handle(), S::NAME)", "names a stream"),
        ("graph/capture.rs", "self.origin().ask(begun)", "begins a capture"),
        ("graph/capture.rs", "end_capture", "ends a capture"),
        ("graph/capture.rs", "update_graph", "ends a capture"),
        ("graph/capture.rs", "end_capture", "ends a capture"),
        (
            "interop/call.rs",
            "self.stream.at().handle()",
            "`make` counts the work",
        ),
        ("interop/call.rs", "self.at().expose()", "ends the clock's say"),
        ("order/event_pool.rs", "record_event(raw, at)", "records"),
        ("order/event_pool.rs", "record_event(raw, at)", "records"),
        ("order/event_pool.rs", "false => at.ask(record)", "records"),
        (
            "order/event_pool.rs",
            "LeftOut::StreamWait(at.handle())",
            "names a stream for a hint",
        ),
        (
            "stream/any.rs",
            "self.at().handle()",
            "names a stream in a message",
        ),
        ("stream/any.rs", "state.at().handle()", "names a stream"),
        ("stream/mod.rs", "self.at.handle()", "names a stream in a message"),
        ("stream/mod.rs", "host_waits(query)", "queries"),
        ("device/core.rs", "host_waits(|at| wait(at)", "waits"),
        ("timeline/recording.rs", "at.handle()", "a key of a table"),
        (
            "order/completion/mod.rs",
            "self.question.ask()",
            "asks another thing",
        ),
    ];

    fn lines(of: &Path, root: &Path, found: &mut Vec<(String, String)>) -> io::Result<()> {
        for entry in fs::read_dir(of)? {
            let path = entry?.path();
            if path.is_dir() {
                lines(&path, root, found)?;
                continue;
            }
            let name = path.strip_prefix(root).expect("inside").display().to_string();
            if name == "order/stream_ref.rs" {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let uses = |line: &&str| {
                let code = line.split("//").next().unwrap_or_default();
                [
                    ".handle()",
                    ".ask(",
                    ".expose()",
                    ".at.host_waits(",
                    "at.host_waits(",
                ]
                .iter()
                .any(|call| code.contains(call))
            };
            found.extend(
                text.lines()
                    .filter(uses)
                    .map(|line| (name.clone(), line.to_owned())),
            );
        }
        Ok(())
    }

    #[test]
    fn each_use_of_a_streams_handle_counts_its_work_or_says_why_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut found = Vec::new();
        lines(&root, &root, &mut found).unwrap();
        let mut left: Vec<_> = USES.iter().collect();
        for (file, line) in found {
            let known = left
                .iter()
                .position(|(known, part, _)| *known == file && line.contains(part));
            match known {
                Some(place) => drop(left.remove(place)),
                None => panic!("{file}: `{}` is in no line of `USES`", line.trim()),
            }
        }
        assert!(left.is_empty(), "these are gone: {left:?}");
    }
}
