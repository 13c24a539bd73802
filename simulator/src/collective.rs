//! Collectives: each rank gives the data that it sends, waits for the other ranks, and computes the
//! data that it receives.
//!
//! A rank's part is three kinds of operation in its stream, so its order is as adversarial as
//! between any streams. For example, one rank may be done, and its sent data overwritten, before
//! another rank has begun to receive.

pub(super) mod exchange;

use std::sync::{Arc, Mutex, PoisonError};

use super::State;
use super::fault::Call;
use super::op::{Op, Position};
use super::simulator::Simulator;
use cuda_rt_driver::{Collective, Communicator, DriverError, DriverResult, ErrorCode, Number, Part};
use exchange::{Exchange, Exchanged, Receive};

/// Simulated devices of one host, as ranks.
#[derive(Debug)]
pub(super) struct SimCommunicator {
    pub(super) simulator: Simulator,
    /// The devices, by rank.
    pub(super) devices: Vec<usize>,
    aborted: Mutex<bool>,
}

impl SimCommunicator {
    pub(super) fn new(simulator: Simulator, devices: Vec<usize>) -> Self {
        Self {
            simulator,
            devices,
            aborted: Mutex::new(false),
        }
    }

    fn check(&self, state: &State, call: Call) -> DriverResult<()> {
        // The value is set once, so it is whole after a panic.
        match *self.aborted.lock().unwrap_or_else(PoisonError::into_inner) {
            false => Ok(()),
            true => Err(DriverError::with_detail(
                call.name(),
                ErrorCode::NCCL_INVALID_USAGE,
                format!("the communicator was aborted ({})", state.origin()),
            )),
        }
    }

    /// Checks each rank's part as NCCL does.
    fn check_parts(
        &self,
        state: &mut State,
        collective: Collective,
        number: Number,
        count: usize,
        parts: &[Part],
    ) -> DriverResult<()> {
        let ranks = self.devices.len();
        let (send, receive) = collective.lens(count, ranks);
        let (send, receive) = (send * number.bytes(), receive * number.bytes());
        for (rank, (part, device)) in parts.iter().zip(&self.devices).enumerate() {
            let stream = state.stream(Call::Collective, part.stream)?;
            if stream.capture.is_some() {
                return Err(state.refuse_capture(Call::Collective, part.stream));
            }
            let on_device = stream.device == *device;
            let memory = &state.memories[*device];
            let in_memory = memory.contains(part.receive.0, receive as u64)
                && (!collective.sends(rank) || memory.contains(part.send.0, send as u64));
            if !on_device || !in_memory || parts.len() != ranks {
                return Err(state.error(Call::Collective, ErrorCode::NCCL_INVALID_ARGUMENT));
            }
        }
        Ok(())
    }
}

// SAFETY: a rank's part reads its own range. It writes only ranges of the same collective: its own,
// in its stream's order, and the ranges of ranks whose parts have ended.
unsafe impl Communicator for SimCommunicator {
    unsafe fn enqueue(
        &self,
        collective: Collective,
        number: Number,
        count: usize,
        parts: &[Part],
    ) -> DriverResult<()> {
        self.simulator.0.enter(Call::Collective, |state| {
            self.check(state, Call::Collective)?;
            self.check_parts(state, collective, number, count, parts)?;
            state.collective(collective, number, count, parts)
        })
    }

    fn status(&self) -> DriverResult<()> {
        (self.simulator.0).enter(Call::CollectiveStatus, |state| {
            self.check(state, Call::CollectiveStatus)
        })
    }

    fn abort(&self) {
        *self.aborted.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
impl State {
    /// Enqueues a collective that was checked.
    fn collective(
        &mut self,
        collective: Collective,
        number: Number,
        count: usize,
        parts: &[Part],
    ) -> DriverResult<()> {
        const CALL: Call = Call::Collective;
        let exchange: Exchange = Arc::new(Mutex::new(Exchanged {
            given: vec![Vec::new(); parts.len()],
            received: Vec::new(),
        }));
        let bytes = collective.lens(count, parts.len()).0 * number.bytes();
        let mut given = Vec::new();
        for (rank, part) in parts
            .iter()
            .enumerate()
            .filter(|(rank, _)| collective.sends(*rank))
        {
            let (from, exchange) = (part.send.0, Arc::clone(&exchange));
            self.submit(
                CALL,
                part.stream,
                Op::Send {
                    from,
                    bytes,
                    rank,
                    exchange,
                },
            )?;
            let stream = self.stream(CALL, part.stream)?;
            let (stream, at) = (part.stream.0, stream.issued());
            given.push((
                Position { stream, at },
                self.stream(CALL, part.stream)?.modelled_end_ns,
            ));
        }
        for (rank, part) in parts.iter().enumerate() {
            for (position, ready_ns) in &given {
                if position.stream != part.stream.0 {
                    self.submit(CALL, part.stream, Op::Wait(*position))?;
                    let stream = self.stream(CALL, part.stream)?;
                    stream.modelled_end_ns = stream.modelled_end_ns.max(*ready_ns);
                }
            }
            let receive = Receive {
                collective,
                number,
                count,
                rank,
                exchange: Arc::clone(&exchange),
                to: part.receive.0,
            };
            self.submit(CALL, part.stream, Op::Receive(Box::new(receive)))?;
        }
        Ok(())
    }
}
