//! Streams: queues of operations, each run in order.

use std::collections::VecDeque;

use super::State;
use super::config::Order;
use super::fault::Call;
use super::graph::Membership;
use super::memory::PendingFrees;
use super::op::{Op, Position};
use super::reach::Reach;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode, RawStream};

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The number of the stream's device.
    pub(super) device: usize,
    pub(super) queue: VecDeque<Op>,
    /// Number of operations that have run; `queue` holds the later ones.
    pub(super) executed: u64,
    /// Number of operations that must run because someone waits; see [`super::schedule`].
    pub(super) wanted: u64,
    /// The end of all enqueued work, in modelled ns.
    pub(super) modelled_end_ns: u64,
    pub(super) pending_frees: PendingFrees,
    pub(super) capture: Option<Membership>,
    /// Whether the first operation is a host function that runs now, or a graph whose host function
    /// runs now.
    pub(super) busy: bool,
    /// Removed when its queue is empty; no call finds it any more.
    pub(super) destroyed: bool,
}

impl Stream {
    /// Number of operations ever enqueued.
    pub(super) fn issued(&self) -> u64 {
        self.executed + self.queue.len() as u64
    }
}

impl State {
    /// The live stream with this handle.
    pub(super) fn stream(&mut self, call: Call, stream: RawStream) -> DriverResult<&mut Stream> {
        let found = self.streams.get(stream.0).is_some_and(|s| !s.destroyed);
        if !found {
            return Err(self.error(call, ErrorCode::INVALID_HANDLE));
        }
        Ok(self.streams.get_mut(stream.0).expect("found above"))
    }

    pub(super) fn destroy_stream(&mut self, stream: RawStream) -> DriverResult<()> {
        let s = self.stream(Call::DestroyStream, stream)?;
        if s.capture.is_some() {
            return Err(self.refuse_capture(Call::DestroyStream, stream));
        }
        s.destroyed = true;
        if s.queue.is_empty() {
            self.streams.remove(stream.0);
        }
        Ok(())
    }

    /// The present end of the stream and its modelled time, for a wait of the host.
    pub(super) fn stream_end(&mut self, stream: RawStream) -> DriverResult<(Position, u64)> {
        let s = self.stream(Call::SynchronizeStream, stream)?;
        if s.capture.is_some() {
            return Err(self.refuse_capture(Call::SynchronizeStream, stream));
        }
        let (at, end_ns) = (s.issued(), s.modelled_end_ns);
        Ok((Position { stream: stream.0, at }, end_ns))
    }

    /// Runs until `position` is done, as a wait of the host, which is modelled to end at `end_ns`.
    /// False if a host function must end first.
    pub(super) fn synchronize(&mut self, call: Call, position: Position, end_ns: u64) -> DriverResult<bool> {
        let done = self.run_until(position);
        self.check_lost(call)?;
        if done {
            self.clock.wait_until(end_ns);
            self.clock.spend(self.config.model.other_call_ns);
            self.synchronized();
        }
        Ok(done)
    }

    pub(super) fn query_stream(&mut self, stream: RawStream) -> DriverResult<bool> {
        let s = self.stream(Call::QueryStream, stream)?;
        if s.capture.is_some() {
            return Err(self.refuse_capture(Call::QueryStream, stream));
        }
        let (at, end_ns) = (s.issued(), s.modelled_end_ns);
        self.query(Call::QueryStream, Position { stream: stream.0, at }, end_ns)
    }

    /// Whether all work up to `position` is done, which is modelled to be at `end_ns`. Makes some
    /// progress, so that a loop of queries ends.
    pub(super) fn query(&mut self, call: Call, position: Position, end_ns: u64) -> DriverResult<bool> {
        self.clock.spend(self.config.model.other_call_ns);
        self.step_towards(position);
        self.check_lost(call)?;
        let done = self.is_done(position);
        if done {
            // A thread that saw the work done did so no earlier than the work was done.
            self.clock.wait_until(end_ns);
        }
        Ok(done)
    }

    /// Enqueues an operation, or adds it to the capture that contains the stream.
    pub(super) fn submit(&mut self, call: Call, stream: RawStream, mut op: Op) -> DriverResult<()> {
        let captured = self.stream(call, stream)?.capture.is_some();
        let work = op.work();
        let (host_ns, model) = (self.clock.now_ns(), &self.config.model);
        let cost_ns = match op {
            Op::Launch(_) | Op::Function(_) | Op::Graph { .. } | Op::Receive(_) => model.launch_call_ns,
            Op::Copy { .. } | Op::CopyRows(_) | Op::Fill { .. } => model.copy_call_ns,
            Op::Wait(_) => model.wait_call_ns,
            Op::Spoil { .. } | Op::Free { .. } | Op::Send { .. } | Op::HostFunction(_) => model.other_call_ns,
        };
        if captured {
            self.capture_op(call, stream, op)?;
            self.clock.spend(cost_ns);
            return Ok(());
        }
        self.clock.spend(cost_ns);
        let s = self.streams.get_mut(stream.0).expect("found above");
        s.modelled_end_ns = s.modelled_end_ns.max(host_ns.saturating_add(cost_ns));
        if let Some(work) = work {
            let place = (stream, s.issued());
            s.modelled_end_ns = self
                .clock
                .run(&self.config, s.device, &work, s.modelled_end_ns, place);
        }
        self.enqueue(stream.0, op);
        Ok(())
    }

    /// Adds an operation to the end of a live stream's queue.
    pub(super) fn enqueue(&mut self, stream: u64, op: Op) {
        let s = self.streams.get_mut(stream).expect("the caller found the stream");
        s.queue.push_back(op);
        self.schedule.pending += 1;
        if s.queue.len() == 1 {
            self.schedule.active.push(stream);
        }
        if self.config.order == Order::Eager {
            // All work that it could wait for ran when it was enqueued, unless a host function
            // still runs.
            while self.lost.is_none() && self.can_run(stream) {
                self.step(stream);
            }
        }
    }

    pub(super) fn is_done(&self, position: Position) -> bool {
        self.streams
            .get(position.stream)
            .is_none_or(|s| s.executed >= position.at)
    }

    /// Runs a stream's next operation. The operation exists and is not blocked.
    pub(super) fn step(&mut self, stream: u64) {
        if self.lost.is_some() {
            return;
        }
        let s = self
            .streams
            .get_mut(stream)
            .expect("a stream with pending work stays");
        let mut op = s
            .queue
            .pop_front()
            .expect("the caller checked that the queue is not empty");
        self.schedule.pending -= 1;
        // A trapped operation stays unexecuted, so that nothing takes it for done.
        let result = match &mut op {
            Op::Free { address, len_bytes } => {
                let memory = &mut self.memories[s.device];
                memory.recycle(*address, *len_bytes, s.executed, &mut s.pending_frees);
                Ok(None)
            }
            Op::HostFunction(function) => Ok(Some(*function)),
            Op::Graph {
                graph,
                version,
                replay,
            } => self.replay(*graph, *version, replay),
            other => other
                .perform(&Reach {
                    device: s.device,
                    memories: &self.memories,
                    granted: &self.granted,
                    host: &self.host,
                })
                .inspect(|()| self.counters.count(other))
                .map(|()| None),
        };
        match result {
            Ok(None) => self.executed(stream),
            Ok(Some(function)) => {
                // The operation stays the stream's first until the function has ended.
                let s = self.streams.get_mut(stream).expect("as above");
                s.queue.push_front(op);
                s.busy = true;
                self.schedule.pending += 1;
                self.start_host_function(stream, function);
            }
            Err(trap) => {
                let detail = format!("{} ({})", trap.detail, self.origin());
                self.lost = Some(DriverError::with_detail(Call::Launch.name(), trap.code, detail));
            }
        }
    }

    /// The stream's first operation has run, and is no longer in the queue.
    pub(super) fn executed(&mut self, stream: u64) {
        let s = self
            .streams
            .get_mut(stream)
            .expect("a stream with pending work stays");
        s.executed += 1;
        if s.queue.is_empty() {
            let active = &mut self.schedule.active;
            let i = active
                .iter()
                .position(|a| *a == stream)
                .expect("it had pending work");
            active.swap_remove(i);
            if s.destroyed {
                self.streams.remove(stream);
            }
        }
    }
}
