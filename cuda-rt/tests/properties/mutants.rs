//! Property 2: in each mutant, one wait, record or synchronisation of a plan's driver calls is left
//! out.
//!
//! Reachability over the explicit graph (`order`) finds the accesses that the mutant leaves
//! unordered. Two statements must then hold.
//!
//! - The checker reports **exactly** the races that no later access hides, as a set of pairs (entry
//!   of the log, read or write). A pair races if its accesses conflict and no path lies between
//!   them. A later access hides a pair if it comes after the first access, was called before the
//!   second, touches the same bytes, and conflicts with everything that the first conflicts with.
//!   The hiding access then races itself, and is reported. So no ordered pair is reported, and each
//!   access that races is reported. The earlier access in a report is the last one that was not
//!   waited for.
//! - If running two racing accesses in the reverse order changes what the host sees (`bytes`), some
//!   order of the simulated device shows wrong bytes. The orders tried are a few seeds, orders made
//!   for the two accesses, and many seeds.
//!
//! Each mutant is counted as one of:
//!
//! - **equivalent**: no conflict is left unordered: nothing is reported, and no byte differs in any
//!   order tried
//! - **refused**: a call of the replay is refused: a capture without its edge is not joined, or
//!   waits for work outside; or the host unregisters pinned memory before the kernel that uses it
//!   has run, and the kernel loses the device
//! - **shown**: races, is reported, and shows wrong bytes in some order
//! - **silent**: races and is reported; running each racing pair in the reverse order changes
//!   nothing that the host sees
//!
//! A mutant of no class fails the test.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use cuda_rt::Device;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Order as Orders, SimConfig};
use proptest::test_runner::TestRunner;

use crate::bytes::same_if_flipped;
use crate::config;
use crate::counts::Counts;
use crate::faults::Faults;
use crate::log::{Call, Log};
use crate::order::{Conflict, Order};
use crate::plan::{Plan, Shape, plan};
use crate::record::{CallLog, Recorder};
use crate::replay::{Schedule, replay};
use crate::run::run;
use crate::side::Tally;

/// Number of orders in which each mutant is tried first.
const FIRST: u64 = 3;
/// Number of orders within which a mutant that can show wrong bytes must show them, besides the
/// orders made for it.
const MOST: u64 = 400;
/// Streams that are starved in turn, in the counting of [`Orders::Starve`].
const STREAMS: u64 = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    plans: u64,
    calls: u64,
    mutants: u64,
    equivalent: u64,
    pub(crate) refused: u64,
    pub(crate) shown: u64,
    silent: u64,
    /// Reported races, each of them expected.
    races: u64,
    /// Replays, and the most replays that one mutant needed to show wrong bytes.
    replays: u64,
    most_tried: u64,
    /// What the programs did.
    kinds: Counts,
}

/// Orders by seed. Lazy orders find at once an access that no wait orders; random orders find an
/// access that some waits order. Each stream is starved in turn.
fn seeded(seed: u64) -> Schedule {
    let (order, seed) = match seed % 4 {
        0 => (Orders::Lazy, seed),
        1 => (Orders::Random, seed),
        odd => (Orders::Starve, seed / 4 * 2 + odd - 2),
    };
    let config = SimConfig::new().seed(seed).order(order);
    Schedule {
        config,
        pauses: Vec::new(),
    }
}

/// Orders made for two racing entries. The second runs before the first, once with as little other
/// work as possible and once with as much as possible.
fn made_for(first: usize, second: usize) -> impl Iterator<Item = Schedule> {
    (0..STREAMS).flat_map(move |seed| {
        let made = |order, pauses| Schedule {
            config: SimConfig::new().seed(seed).order(order),
            pauses,
        };
        [
            made(Orders::Starve, vec![first.saturating_sub(1), second]),
            made(Orders::Lazy, vec![second]),
        ]
    })
}

/// The driver calls of a plan, and what it did.
pub(crate) fn record(plan: &Plan, config: &SimConfig, keeps_redundant: bool) -> (Log, Tally) {
    let calls = Arc::new(Mutex::new(CallLog::default()));
    let [zero, one] = Recorder::two(config.clone(), &calls);
    let tally = Device::with_driver(zero, |zero| {
        Device::with_driver(one, |one| {
            zero.keep_redundant_edges(keeps_redundant);
            one.keep_redundant_edges(keeps_redundant);
            run(plan, (zero, one), (None, None), &Faults::Never)
        })
        .expect("no fault")
    })
    .expect("no fault");
    (
        std::mem::take(&mut calls.lock().expect("no call panics").log),
        tally,
    )
}

/// Checks one mutant, or the log itself, against the expectation and against its replay.
fn judge(log: &Log, left_out: Option<usize>, count: &mut Count) {
    let name = || match left_out {
        None => "the log as it is".to_owned(),
        Some(i) => format!("without entry {i}, {:?}", log.entries[i].call),
    };
    let mut tried = 0;
    let mut attempt = |schedule: &Schedule, whole| {
        tried += 1;
        replay(log, left_out, schedule, whole)
    };
    let outcome = attempt(&seeded(0), true);
    if let Some(error) = &outcome.refused {
        let has = |is: fn(&Call) -> bool| log.entries.iter().any(|entry| is(&entry.call));
        let captures = has(|call| matches!(call, Call::BeginCapture(_)));
        let unregisters =
            error.code() == ErrorCode::ILLEGAL_ADDRESS && has(|call| matches!(call, Call::Unregister(_)));
        assert!(
            left_out.is_some() && (captures || unregisters),
            "{}: {error}",
            name()
        );
        count.refused += 1;
        count.replays += tried;
        return;
    }
    let order = Order::of(log, left_out);
    let conflicts = order.conflicts();
    let expected: BTreeSet<_> = conflicts
        .iter()
        .filter(|c| c.reported)
        .map(|c| c.report)
        .collect();
    let reported: BTreeSet<_> = outcome.races.iter().copied().collect();
    let told = |pairs: Vec<&((usize, bool), (usize, bool))>| {
        let entry = |(entry, writes): (usize, bool)| {
            let verb = if writes { "writes" } else { "reads" };
            format!("{entry} {verb}: {:?}", log.entries[entry].call)
        };
        pairs
            .iter()
            .map(|(a, b)| format!("\n    {}\n    {}\n", entry(*a), entry(*b)))
            .collect::<String>()
    };
    assert!(
        reported == expected,
        "{}: reported, and not expected:{}\n  expected, and not reported:{}",
        name(),
        told(reported.difference(&expected).collect()),
        told(expected.difference(&reported).collect()),
    );
    count.races += reported.len() as u64;
    if conflicts.is_empty() {
        for seed in 0..FIRST {
            let outcome = attempt(&seeded(seed), true);
            assert_eq!(
                (outcome.wrong, outcome.races.len()),
                (None, 0),
                "{}, seed {seed}",
                name()
            );
        }
        assert!(
            same_if_flipped(log, &order, None),
            "{}: the oracle computes other bytes",
            name()
        );
        count.equivalent += 1;
        count.replays += tried;
        return;
    }
    assert!(
        left_out.is_some(),
        "a program in the safe API races: {}",
        told(expected.iter().collect())
    );
    let shows = |conflict: &&Conflict| !same_if_flipped(log, &order, Some(conflict.second));
    let shown = (0..FIRST).any(|seed| attempt(&seeded(seed), false).wrong.is_some());
    if !shown {
        let visible: Vec<&Conflict> = conflicts.iter().filter(shows).collect();
        let Some(first) = visible.first() else {
            count.silent += 1;
            count.replays += tried;
            return;
        };
        let entry = |node: usize| order.nodes[node].entry;
        let made =
            (visible.iter()).flat_map(|conflict| made_for(entry(conflict.first), entry(conflict.second)));
        let mut schedules = made.chain((FIRST..MOST).map(seeded));
        let shown = schedules.any(|schedule| attempt(&schedule, false).wrong.is_some());
        assert!(
            shown,
            "{}: no order tried shows it, and this one does:{}",
            name(),
            told(vec![&first.report])
        );
    }
    count.shown += 1;
    count.replays += tried;
    count.most_tried = count.most_tried.max(tried);
}

/// Judges each mutant of a plan.
pub(crate) fn mutants_of(plan: &Plan, count: &mut Count) {
    mutants_with(plan, false, count);
}

/// Judges each mutant of a plan, on devices that may keep redundant edges.
pub(crate) fn mutants_with(plan: &Plan, keeps_redundant: bool, count: &mut Count) {
    count.plans += 1;
    let (log, tally) = record(plan, &SimConfig::new().seed(plan.seed.into()), keeps_redundant);
    count.kinds += tally.counts;
    count.calls += log.entries.len() as u64;
    judge(&log, None, &mut Count::default());
    for edge in log.edges() {
        count.mutants += 1;
        judge(&log, Some(edge), count);
    }
}

#[test]
fn each_edge_that_is_left_out_is_reported_and_shows() {
    let shape = Shape {
        most_steps: 24,
        threads: true,
        faults: false,
        updates: false,
        graphs: 5,
    };
    let total = Cell::new(Count::default());
    let result = TestRunner::new(config(20, 1_500)).run(&plan(shape), |plan| {
        let mut count = total.get();
        mutants_of(&plan, &mut count);
        total.set(count);
        Ok(())
    });
    let count = total.get();
    println!("{count:?}");
    result.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        count.mutants,
        count.equivalent + count.refused + count.shown + count.silent
    );
    assert!(count.shown * 10 > count.mutants, "few mutants race: {count:?}");
    count.kinds.judge(count.plans);
}
