//! The checker's speed, and its memory: an upload stream and a compute stream, two slots, ordered
//! by events.

use std::time::Instant;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DeviceAddress, RawEvent, RawStream};
use cuda_rt::simulator::{Order, SimConfig};

use crate::rig::{Host, Rig};

fn is_long() -> bool {
    std::env::var_os("CUDA_RT_LONG").is_some_and(|value| value != "0")
}

/// Number of rounds of 8 operations. The long run is an hour of 100,000 operations a second, one
/// each 10 µs: 360 million. Among the examples on an H200, `denoise` makes some thousand a second,
/// `decode_chunks` some ten thousand, and `serve`, on eight threads, about two hundred thousand.
fn rounds() -> u64 {
    if is_long() { 45_000_000 } else { 20_000 }
}

/// Runs `body`. Returns the seconds that this thread ran on a processor, if the system reports
/// them; otherwise the seconds that passed. The processor time leaves out other work of the
/// machine.
fn seconds(body: impl FnOnce()) -> f64 {
    let on_processor = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let (started, before) = (Instant::now(), on_processor());
    body();
    let known = before
        .zip(on_processor())
        .map(|(before, after)| (after - before) / 1e9);
    known
        .filter(|seconds| *seconds > 0.0)
        .unwrap_or_else(|| started.elapsed().as_secs_f64())
}

/// Memory of this process in RAM, in KiB, if the system reports it.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

struct Pipeline {
    rig: Rig,
    upload: RawStream,
    compute: RawStream,
    host: Host,
    slots: [(DeviceAddress, RawEvent, RawEvent); 2],
}

impl Pipeline {
    fn new(check: Check) -> Self {
        let rig = Rig::with_check(SimConfig::new().order(Order::Lazy), check);
        let (upload, compute) = (rig.stream(), rig.stream());
        let slots = [(); 2].map(|()| (rig.alloc(64, upload).unwrap(), rig.event(), rig.event()));
        let host = Host::new(64);
        Self {
            rig,
            upload,
            compute,
            host,
            slots,
        }
    }

    /// One frame: 8 operations, and sometimes a wait of the host.
    fn round(&self, round: u64) {
        let Self {
            rig, upload, compute, ..
        } = self;
        let (data, uploaded, computed) = self.slots[round as usize % 2];
        rig.wait_event(*upload, computed).unwrap();
        rig.upload(data, self.host, 16, *upload).unwrap();
        rig.record_event(uploaded, *upload).unwrap();
        rig.wait_event(*compute, uploaded).unwrap();
        let temporary = rig.alloc(64, *compute).unwrap();
        rig.copy(temporary, data, 64, *compute).unwrap();
        rig.record_event(computed, *compute).unwrap();
        rig.free(temporary, *compute).unwrap();
        if round.is_multiple_of(64) {
            rig.synchronize_event(computed).unwrap();
        }
    }

    fn rate(&self, rounds: u64) -> f64 {
        rounds as f64 * 8.0 / seconds(|| (0..rounds).for_each(|round| self.round(round)))
    }
}

/// Prints the rates and the memory (`--release --nocapture`), and asserts that the checker's memory
/// does not grow. Only the long run compares the memory of the process, because it is alone in its
/// process: `CUDA_RT_LONG=1 cargo test --release -p cuda-handoff --test sim the_checker_keeps_up --
/// --nocapture`.
#[test]
fn the_checker_keeps_up_and_forgets() {
    let (unchecked, checked) = (Pipeline::new(Check::Off), Pipeline::new(Check::Record));
    let rounds = rounds();
    let without = unchecked.rate(rounds / 10);
    checked.rate(rounds / 10);
    let early = checked.rig.sim().checker_footprint();
    let mut resident = vec![resident_kib()];
    let with = seconds(|| {
        for _ in 0..10 {
            (0..rounds / 10).for_each(|round| checked.round(round));
            resident.push(resident_kib());
        }
    });
    let with = rounds as f64 * 8.0 / with;
    let late = checked.rig.sim().checker_footprint();
    println!(
        "{:.2} M operations a second without the checker, {:.2} M with it; {} operations, {early:?} -> {late:?} ranges and \
         actors, {resident:?} KiB resident",
        without / 1e6,
        with / 1e6,
        rounds * 8,
    );
    assert_eq!(checked.rig.sim().races(), []);
    // The number of temporary blocks in use at once varies by chance; one range a round would be
    // thousands.
    assert!(
        late.0 <= 2 * early.0 && late.1 <= early.1,
        "{early:?} -> {late:?}"
    );
    // The memory may shrink, because the system takes pages back.
    let known: Vec<u64> = resident.iter().flatten().copied().collect();
    if let (true, Some(first), Some(most)) = (is_long(), known.first(), known.iter().max()) {
        assert!(*most <= first + 512, "{known:?} KiB");
    }
}

/// Streams, events and blocks of many sizes are made and destroyed: the checker forgets them.
#[test]
fn the_checker_forgets_freed_memory_and_destroyed_streams() {
    let rig = Rig::new(SimConfig::new().order(Order::Eager));
    for round in 0..5_000 {
        let stream = rig.stream();
        let event = rig.event();
        let data = rig.alloc(64 * (1 + round % 97), stream).unwrap();
        for word in 0..8 {
            rig.fill(DeviceAddress(data.0 + 4 * word), &[1], 4, stream)
                .unwrap();
        }
        rig.record_event(event, stream).unwrap();
        rig.free(data, stream).unwrap();
        if round % 10 == 0 {
            rig.synchronize_event(event).unwrap();
        }
        rig.synchronize_stream(stream).unwrap();
        rig.destroy_event(event).unwrap();
        rig.destroy_stream(stream).unwrap();
    }
    let (ranges, actors) = rig.sim().checker_footprint();
    assert!(
        ranges <= 8192 && actors <= 128,
        "{ranges} ranges, {actors} actors"
    );
    assert_eq!(rig.sim().races(), []);
}
