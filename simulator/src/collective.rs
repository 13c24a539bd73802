//! Collectives: each rank gives the data that it sends, waits for the other ranks, and computes the
//! data that it receives.
//!
//! A rank's part is three kinds of operation in its stream, so its order is as adversarial as
//! between any streams. For example, one rank may be done, and its sent data overwritten, before
//! another rank has begun to receive.

use std::sync::{Arc, Mutex, PoisonError};

use super::State;
use super::clock::{SpanKind, Work};
use super::fault::Call;
use super::memory::{self, Memory};
use super::simulator::Simulator;
use super::stream::{Op, Position};
use cuda_rt_driver::{
    Collective, Communicator, DriverError, DriverResult, ErrorCode, Number, Part, Reduction,
};

/// Simulated devices of one host, as ranks.
#[derive(Debug)]
pub(super) struct SimCommunicator {
    pub(super) simulator: Simulator,
    /// The devices, by rank.
    pub(super) devices: Vec<usize>,
    aborted: Mutex<bool>,
}

/// The data shared by the ranks of one collective.
pub(super) type Exchange = Arc<Mutex<Exchanged>>;

#[derive(Debug, Default)]
pub(super) struct Exchanged {
    /// The sent data, by rank.
    given: Vec<Vec<u8>>,
    /// The received data, and its address, of ranks whose parts have ended.
    received: Vec<(u64, Vec<u8>)>,
}

/// One rank's part in one collective.
#[derive(Debug)]
pub(super) struct Receive {
    collective: Collective,
    number: Number,
    count: usize,
    rank: usize,
    exchange: Exchange,
    to: u64,
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

/// Gives the `bytes` bytes at `from` as the data of `rank`.
pub(super) fn send(memory: &Memory, from: u64, bytes: usize, rank: usize, exchange: &Exchange) {
    debug_assert!(
        memory.contains(from, bytes as u64),
        "checked when it was enqueued"
    );
    let mut given = vec![0; bytes];
    // SAFETY: the range was found in the device's memory when it was enqueued, and the memory stays
    // mapped (CHUNK-1). The vector has the same length.
    unsafe { memory::copy(given.as_mut_ptr().expose_provenance() as u64, from, bytes) };
    exchange.lock().unwrap_or_else(PoisonError::into_inner).given[rank] = given;
}

impl Receive {
    /// The load on the links. Each rank sends and receives once round a ring, or twice for data
    /// that is reduced and then gathered.
    pub(super) fn work(&self) -> Work {
        let ranks = self.ranks() as u64;
        let bytes = (self.count * self.number.bytes()) as u64;
        let rounds = match self.collective {
            Collective::AllReduce(_) => 2 * bytes * (ranks - 1) / ranks,
            Collective::Broadcast { .. } => bytes,
            Collective::AllGather | Collective::ReduceScatter(_) => bytes * (ranks - 1),
        };
        Work {
            kind: SpanKind::Collective,
            label: self.collective.name(),
            bytes: rounds,
            threads: 0,
        }
    }

    fn ranks(&self) -> usize {
        self.exchange
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .given
            .len()
    }

    /// Computes and writes the data that the rank receives. It also writes the received data of all
    /// ended ranks again. NCCL may do so until the parts of all ranks have ended, and after an
    /// abort it does.
    pub(super) fn run(&self, memory: &Memory) {
        let mut exchanged = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        let given = &exchanged.given;
        let bytes = self.count * self.number.bytes();
        let result = match self.collective {
            Collective::AllReduce(by) => reduce(self.number, by, given, 0..bytes),
            Collective::Broadcast { root } => given[root].clone(),
            Collective::AllGather => given.concat(),
            Collective::ReduceScatter(by) => {
                reduce(self.number, by, given, self.rank * bytes..(self.rank + 1) * bytes)
            }
        };
        debug_assert!(
            memory.contains(self.to, result.len() as u64),
            "checked when it was enqueued"
        );
        exchanged.received.push((self.to, result));
        for (to, result) in &exchanged.received {
            // SAFETY: each rank's range was found in its device's memory when it was enqueued. The
            // memory stays mapped as long as the host's devices live (CHUNK-1).
            unsafe { memory::copy(*to, result.as_ptr().expose_provenance() as u64, result.len()) };
        }
    }
}

/// Reduces the part `range` of all given data, element by element, in the order of ranks.
fn reduce(number: Number, by: Reduction, given: &[Vec<u8>], range: std::ops::Range<usize>) -> Vec<u8> {
    macro_rules! fold {
        ($type:ty, $add:expr, $multiply:expr) => {{
            let (add, multiply): (fn($type, $type) -> $type, fn($type, $type) -> $type) = ($add, $multiply);
            let combine: fn($type, $type) -> $type = match by {
                Reduction::Sum => add,
                Reduction::Product => multiply,
                Reduction::Min => |a, b| if b < a { b } else { a },
                Reduction::Max => |a, b| if b > a { b } else { a },
            };
            let numbers = |rank: &Vec<u8>| -> Vec<$type> {
                let bytes = rank[range.clone()].chunks_exact(size_of::<$type>());
                bytes
                    .map(|bytes| <$type>::from_ne_bytes(bytes.try_into().expect("as long as one")))
                    .collect()
            };
            let mut ranks = given.iter().map(numbers);
            let first = ranks.next().unwrap_or_default();
            let folded = ranks.fold(first, |sum, rank| {
                sum.into_iter().zip(rank).map(|(a, b)| combine(a, b)).collect()
            });
            folded.into_iter().flat_map(<$type>::to_ne_bytes).collect()
        }};
    }
    match number {
        Number::I8 => fold!(i8, i8::wrapping_add, i8::wrapping_mul),
        Number::U8 => fold!(u8, u8::wrapping_add, u8::wrapping_mul),
        Number::I32 => fold!(i32, i32::wrapping_add, i32::wrapping_mul),
        Number::U32 => fold!(u32, u32::wrapping_add, u32::wrapping_mul),
        Number::I64 => fold!(i64, i64::wrapping_add, i64::wrapping_mul),
        Number::U64 => fold!(u64, u64::wrapping_add, u64::wrapping_mul),
        Number::F32 => fold!(f32, |a, b| a + b, |a, b| a * b),
        Number::F64 => fold!(f64, |a, b| a + b, |a, b| a * b),
    }
}
