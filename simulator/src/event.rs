//! Events: places in streams, with their modelled times.

use super::State;
use super::fault::Call;
use super::graph::Membership;
use super::op::{Op, Position};
use cuda_rt_driver::{DriverResult, ErrorCode, LeftOut, RawEvent, RawStream};

#[derive(Debug)]
pub(super) struct Event {
    pub(super) timing: bool,
    pub(super) last: Record,
}

/// The most recent record of an event.
#[derive(Clone, Debug)]
pub(super) enum Record {
    /// Never recorded: the event counts as done.
    Never,
    /// A place in a stream.
    At { position: Position, time_ns: u64 },
    /// The place in a capture at which a stream stood.
    Captured(Membership),
}

impl State {
    fn event(&mut self, call: Call, event: RawEvent) -> DriverResult<&mut Event> {
        if self.events.get(event.0).is_none() {
            return Err(self.error(call, ErrorCode::INVALID_HANDLE));
        }
        Ok(self.events.get_mut(event.0).expect("found above"))
    }

    pub(super) fn create_event(&mut self, timing: bool) -> RawEvent {
        self.counters.events_created += 1;
        RawEvent(self.events.insert(Event {
            timing,
            last: Record::Never,
        }))
    }

    pub(super) fn destroy_event(&mut self, event: RawEvent) -> DriverResult<()> {
        self.event(Call::DestroyEvent, event)?;
        self.events.remove(event.0);
        Ok(())
    }

    pub(super) fn record_event(&mut self, event: RawEvent, stream: RawStream) -> DriverResult<()> {
        const CALL: Call = Call::RecordEvent;
        self.event(CALL, event)?;
        let s = self.stream(CALL, stream)?;
        let last = match &s.capture {
            None => {
                let host_ns = self
                    .clock
                    .now_ns()
                    .saturating_add(self.config.model.record_call_ns);
                let s = self.stream(CALL, stream)?;
                s.modelled_end_ns = s.modelled_end_ns.max(host_ns);
                let position = Position {
                    stream: stream.0,
                    at: s.issued(),
                };
                Record::At {
                    position,
                    time_ns: s.modelled_end_ns,
                }
            }
            Some(membership) => {
                let membership = membership.clone();
                self.check_capture(CALL, membership.capture)?;
                Record::Captured(membership)
            }
        };
        self.clock.spend(self.config.model.record_call_ns);
        self.event(CALL, event)?.last = last;
        Ok(())
    }

    pub(super) fn wait_event(&mut self, stream: RawStream, event: RawEvent) -> DriverResult<()> {
        const CALL: Call = Call::WaitEvent;
        self.stream(CALL, stream)?;
        match self.event(CALL, event)?.last.clone() {
            Record::Never => Ok(()),
            Record::Captured(membership) => self.join_capture(stream, membership),
            Record::At { position, time_ns } => {
                if self.stream(CALL, stream)?.capture.is_some() {
                    return Err(self.leave_capture(CALL, stream));
                }
                if position.stream == stream.0 || self.is_done(position) {
                    self.clock.spend(self.config.model.wait_call_ns);
                } else {
                    self.submit(CALL, stream, Op::Wait(position))?;
                }
                let host_ns = self.clock.now_ns();
                let s = self.stream(CALL, stream)?;
                let start_ns = s.modelled_end_ns.max(host_ns);
                s.modelled_end_ns = s.modelled_end_ns.max(time_ns);
                let device = s.device;
                self.clock
                    .hold(device, stream, RawStream(position.stream), start_ns, time_ns);
                Ok(())
            }
        }
    }

    /// Spends the time of a call that was left out, because the host has seen the event over. So
    /// the modelled times do not depend on the thread that saw it, and when.
    ///
    /// Safe code of any crate can tell this of any event and any stream. So it changes times only:
    /// a wait that is not over, or on a captured stream, changes nothing.
    pub(super) fn left_out(&mut self, event: RawEvent, call: LeftOut) {
        let last = self
            .event(Call::QueryEvent, event)
            .map(|event| event.last.clone());
        let Ok(Record::At {
            position,
            time_ns: end_ns,
        }) = last
        else {
            return;
        };
        if !self.is_done(position) {
            return;
        }
        // A lost device has no times.
        let _ = match call {
            LeftOut::StreamWait(stream) => match self.stream(Call::WaitEvent, stream) {
                Ok(to) if to.capture.is_none() => self.wait_event(stream, event),
                _ => Ok(()),
            },
            LeftOut::Query => self.query(Call::QueryEvent, position, end_ns).map(drop),
            LeftOut::HostWait => self
                .synchronize(Call::SynchronizeEvent, position, end_ns)
                .map(drop),
        };
    }

    /// The place that the event stands for, with its time; `None` if it was never recorded.
    pub(super) fn place(&mut self, call: Call, event: RawEvent) -> DriverResult<Option<(Position, u64)>> {
        match self.event(call, event)?.last {
            Record::Never => Ok(None),
            Record::At { position, time_ns } => Ok(Some((position, time_ns))),
            Record::Captured(Membership { capture, .. }) => Err(self.touch_captured(call, capture)),
        }
    }

    pub(super) fn query_event(&mut self, event: RawEvent) -> DriverResult<bool> {
        let place = self.place(Call::QueryEvent, event)?;
        let Some((position, time_ns)) = place else {
            self.clock.spend(self.config.model.other_call_ns);
            return Ok(true);
        };
        self.query(Call::QueryEvent, position, time_ns)
    }

    pub(super) fn elapsed_ms(&mut self, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
        let mut times = [0.0; 2];
        for (time, event) in times.iter_mut().zip([start, end]) {
            let timing = self.event(Call::ElapsedMs, event)?.timing;
            let Some((position, time_ns)) = self.place(Call::ElapsedMs, event)?.filter(|_| timing) else {
                return Err(self.error(Call::ElapsedMs, ErrorCode::INVALID_HANDLE));
            };
            if !self.is_done(position) {
                return Err(self.error(Call::ElapsedMs, ErrorCode::NOT_READY));
            }
            *time = time_ns as f64;
        }
        Ok(((times[1] - times[0]) / 1e6) as f32)
    }
}
