//! Random programs: with all needed edges, no order changes their result; with one edge missing,
//! some order does.

use cuda_rt::driver::DeviceAddress;
use cuda_rt::driver::{RawEvent, RawStream};
use cuda_rt::simulator::{Order, SimConfig};

use crate::kernels;
use crate::rig::Rig;

const STREAMS: usize = 4;
const BUFFERS: usize = 3;
const STEPS: usize = 40;

/// A random generator that is not the simulated device's (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// For each stream, the number of records before a place.
type VectorClock = [u32; STREAMS];

#[derive(Clone, Copy)]
struct Recorded {
    event: RawEvent,
    stream: usize,
    clock: VectorClock,
}

/// A buffer, with the records behind its last write and behind the reads since then.
struct Buffer {
    address: DeviceAddress,
    written: Recorded,
    read: Vec<Recorded>,
}

struct Program {
    rig: Rig,
    streams: [RawStream; STREAMS],
    clocks: [VectorClock; STREAMS],
    edges: usize,
    without: Option<usize>,
    /// The record that was not waited for, and the stream that did not wait.
    missing: Option<(Recorded, usize)>,
}

impl Program {
    fn wait(&mut self, s: usize, on: Recorded) {
        if self.without == Some(self.edges) {
            self.missing = Some((on, s));
        } else {
            self.rig.wait_event(self.streams[s], on.event).unwrap();
            for (own, other) in self.clocks[s].iter_mut().zip(on.clock) {
                *own = (*own).max(other);
            }
        }
        self.edges += 1;
    }

    fn record(&mut self, s: usize) -> Recorded {
        let event = self.rig.event();
        self.rig.record_event(event, self.streams[s]).unwrap();
        self.clocks[s][s] += 1;
        Recorded {
            event,
            stream: s,
            clock: self.clocks[s],
        }
    }

    fn new_buffer(&mut self, s: usize, value: u8) -> Buffer {
        let address = self.rig.alloc(4, self.streams[s]).unwrap();
        self.rig.fill(address, &[value], 4, self.streams[s]).unwrap();
        Buffer {
            address,
            written: self.record(s),
            read: Vec::new(),
        }
    }

    /// Whether no other edge implies the missing edge.
    fn missed(&self) -> bool {
        self.missing
            .is_some_and(|(on, s)| self.clocks[s][on.stream] < on.clock[on.stream])
    }
}

/// The result of a run.
struct Outcome {
    values: Vec<u32>,
    edges: usize,
    /// Whether the missing edge was needed.
    racy: bool,
}

/// Runs program number `number`. Each wait is one edge; the edge numbered `without` is left out.
fn run(number: u64, config: SimConfig, without: Option<usize>) -> Outcome {
    let rig = Rig::new(config);
    let streams = [0; STREAMS].map(|_| rig.stream());
    let mut program = Program {
        rig,
        streams,
        clocks: Default::default(),
        edges: 0,
        without,
        missing: None,
    };
    let p = &mut program;
    let mut numbers = Numbers(number + 1);
    let mut racy = false;
    // The contents that each step left in its buffer, so that no later step hides them.
    let log = p.rig.alloc(4 * STEPS, streams[0]).unwrap();
    p.rig.synchronize_stream(streams[0]).unwrap();
    let mut buffers: Vec<Buffer> = (0..BUFFERS).map(|i| p.new_buffer(i % STREAMS, i as u8)).collect();
    for step in 0..STEPS {
        let s = numbers.below(STREAMS);
        let (i, from) = (numbers.below(BUFFERS), numbers.below(BUFFERS));
        let (at, stream, edges) = (buffers[i].address, p.streams[s], p.edges);
        let what = numbers.below(4);
        // Every step writes `i`. It must come after the last write and after all reads since then.
        p.wait(s, buffers[i].written);
        std::mem::take(&mut buffers[i].read)
            .into_iter()
            .for_each(|event| p.wait(s, event));
        if what == 1 {
            p.wait(s, buffers[from].written);
        }
        racy |= without.is_some_and(|edge| edge >= edges) && p.missed();
        match what {
            0 => {
                p.rig.free(at, stream).unwrap();
                buffers[i] = p.new_buffer(s, step as u8);
            }
            1 if from != i => {
                p.rig.copy(at, buffers[from].address, 4, stream).unwrap();
                let read = p.record(s);
                buffers[from].read.push(read);
            }
            _ => p
                .rig
                .launch(&kernels::MIX, at, 1, 1 + step as u32, stream)
                .unwrap(),
        }
        p.rig
            .copy(
                DeviceAddress(log.0 + 4 * step as u64),
                buffers[i].address,
                4,
                stream,
            )
            .unwrap();
        buffers[i].written = p.record(s);
    }
    let edges = p.edges;
    streams.iter().for_each(|s| p.rig.synchronize_stream(*s).unwrap());
    let values = p.rig.read(log, STEPS, streams[0]);
    Outcome { values, edges, racy }
}

#[test]
fn no_order_changes_the_result_of_an_ordered_program() {
    for number in 0..150 {
        let want = run(number, SimConfig::new().order(Order::Eager), None).values;
        for (seed, order) in (0..3).flat_map(|seed| [(seed, Order::Random), (seed, Order::Lazy)]) {
            let got = run(number, SimConfig::new().order(order).seed(seed), None).values;
            assert_eq!(got, want, "program {number}, {order:?}, seed {seed}");
        }
    }
}

#[test]
fn a_missing_edge_changes_the_result_within_a_few_seeds() {
    let (mut shown, mut racy) = (0, 0);
    for number in 0..12 {
        let right = run(number, SimConfig::new().order(Order::Eager), None);
        for edge in 0..right.edges {
            let mut outcomes = (0..10).map(|seed| {
                let order = if seed % 2 == 0 { Order::Random } else { Order::Lazy };
                run(number, SimConfig::new().order(order).seed(seed), Some(edge))
            });
            if run(number, SimConfig::new().order(Order::Eager), Some(edge)).racy {
                racy += 1;
                shown += usize::from(outcomes.any(|outcome| outcome.values != right.values));
            } else {
                assert!(
                    outcomes.all(|outcome| outcome.values == right.values),
                    "implied by other edges"
                );
            }
        }
    }
    println!("{shown} of {racy}");
    assert!(racy > 100 && shown * 5 > racy * 4, "only {shown} of {racy}");
}
