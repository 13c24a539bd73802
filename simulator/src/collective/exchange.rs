//! The data that the ranks of a collective exchange, and how a rank computes the data that it
//! receives.

use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::{SpanKind, Work};
use crate::memory::{self, Memory};
use cuda_rt_driver::{Collective, Number, Reduction};

/// The data shared by the ranks of one collective.
pub(crate) type Exchange = Arc<Mutex<Exchanged>>;

#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    /// The sent data, by rank.
    pub(super) given: Vec<Vec<u8>>,
    /// The received data, and its address, of ranks whose parts have ended.
    pub(super) received: Vec<(u64, Vec<u8>)>,
}

/// One rank's part in one collective.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(super) collective: Collective,
    pub(super) number: Number,
    pub(super) count: usize,
    pub(super) rank: usize,
    pub(super) exchange: Exchange,
    pub(super) to: u64,
}

/// Gives the `bytes` bytes at `from` as the data of `rank`.
pub(crate) fn send(memory: &Memory, from: u64, bytes: usize, rank: usize, exchange: &Exchange) {
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
    pub(crate) fn work(&self) -> Work {
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
    pub(crate) fn run(&self, memory: &Memory) {
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
