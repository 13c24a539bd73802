//! How fast the checker is, and that it forgets: an upload stream and a compute stream, two slots,
//! event by event.

use std::time::Instant;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DeviceAddress, RawEvent, RawStream};
use cuda_rt::simulator::{Order, SimConfig};

use crate::rig::{Host, Rig};

fn is_long() -> bool {
    std::env::var_os("CUDA_RT_LONG").is_some_and(|value| value != "0")
}

/// Rounds of 8 operations. The long run's are an hour of 100,000 operations a second, one each 10
/// µs: 360 million. Of the examples on an H200, `denoise` makes some thousand a second,
/// `decode_chunks` some ten thousand and `serve`, on eight threads, about twice a hundred thousand.
fn rounds() -> u64 {
    if is_long() { 45_000_000 } else { 20_000 }
}

/// Runs `body`, and returns the seconds that this thread was on a processor, where the system
/// tells; else those that passed. What else the machine does is then not in the rate.
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

/// Memory of this process that is in RAM, in KiB, where the system tells it so.
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

    /// One frame: 8 operations, and now and then a wait of the host.
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

/// Prints the rates and the memory (`--release --nocapture`); asserts that what the checker
/// remembers does not grow. The process's memory is compared in the long run only, which is alone
/// in its process: `CUDA_RT_LONG=1 cargo test --release -p cuda-handoff --test sim
/// the_checker_keeps_up -- --nocapture`.
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
    // The most temporary blocks that were in use at once are a matter of luck; one range a round
    // would be thousands.
    assert!(
        late.0 <= 2 * early.0 && late.1 <= early.1,
        "{early:?} -> {late:?}"
    );
    // It may shrink: the system takes pages back.
    let known: Vec<u64> = resident.iter().flatten().copied().collect();
    if let (true, Some(first), Some(most)) = (is_long(), known.first(), known.iter().max()) {
        assert!(*most <= first + 512, "{known:?} KiB");
    }
}

/// Streams, events and blocks of many sizes come and go: their traces go too.
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
