//! The share of redundant edges that is left out.
//!
//! An edge is redundant if it orders nothing new, by reachability over the explicit graph
//! (`order`): a wait for an event that is already before the waiting stream or the host, or a
//! record behind a record of the same stream with nothing in between. Each plan runs twice: on
//! devices that keep redundant edges, where they are counted, and on devices that leave them out,
//! where the redundant edges that are left are counted.

use std::cell::Cell;

use cuda_rt::simulator::SimConfig;
use proptest::test_runner::{Config, TestRunner};

use crate::config;
use crate::log::{Call, Log};
use crate::mutants::record;
use crate::order::Order;
use crate::plan::{Shape, plan};

/// Edges, all and redundant: records, waits of streams, waits and queries of the host.
#[derive(Clone, Copy, Debug, Default)]
struct Edges {
    all: [u64; 3],
    redundant: [u64; 3],
}

impl Edges {
    fn add(&mut self, log: &Log) {
        for (entry, redundant) in Order::of(log, None).edges {
            let kind = match log.entries[entry].call {
                Call::Record { .. } => 0,
                Call::Wait { .. } => 1,
                _ => 2,
            };
            self.all[kind] += 1;
            self.redundant[kind] += u64::from(redundant);
        }
    }
}

fn share(left: u64, redundant: u64) -> f64 {
    1.0 - left as f64 / redundant as f64
}

#[test]
fn nine_of_ten_redundant_edges_are_left_out() {
    for threads in [false, true] {
        let shape = Shape {
            most_steps: 40,
            threads,
            faults: false,
            updates: false,
            graphs: 5,
        };
        let counted = Cell::new([Edges::default(); 2]);
        let asked = config(60, 3_000);
        // Few plans have too few redundant edges for a share.
        let cases = asked.cases.max(20);
        let result = TestRunner::new(Config { cases, ..asked }).run(&plan(shape), |plan| {
            let mut edges = counted.get();
            for (edges, keeps) in edges.iter_mut().zip([true, false]) {
                let (log, _) = record(&plan, &SimConfig::new().seed(plan.seed.into()), keeps);
                edges.add(&log);
            }
            counted.set(edges);
            Ok(())
        });
        let [kept, left] = counted.get();
        println!("threads: {threads}; kept: {kept:?}; left out: {left:?}");
        result.unwrap_or_else(|error| panic!("{error}"));
        let sum = |edges: [u64; 3]| edges.iter().sum::<u64>();
        for (kind, name) in ["records", "waits", "waits and queries of the host"]
            .iter()
            .enumerate()
        {
            let (left, redundant) = (left.redundant[kind], kept.redundant[kind]);
            println!("  {name}: {:.3} of {redundant}", share(left, redundant));
        }
        let (left, redundant) = (sum(left.redundant), sum(kept.redundant));
        println!("  all edges: {:.3} of {redundant}", share(left, redundant));
        assert!(redundant > 100, "the plans have redundant edges");
        assert!(share(left, redundant) >= 0.9, "{left} of {redundant} are made");
    }
}
