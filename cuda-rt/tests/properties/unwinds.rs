//! Property 3: one driver call unwinds before its effect or behind it, or is made and denied. In no
//! order the plan races then, and all bytes are right that the model still knows.
//!
//! Each plan first runs without a fault. Its calls are recorded, and the later runs break some of
//! them. Some methods are called a hundred times more often than others. So a method and the
//! method called before it are chosen first, and then one of these calls.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::Device;
use cuda_rt::checker::Check;
use cuda_rt::driver::Tools;
use cuda_rt::driver::call_lock::message;
use cuda_rt::simulator::{Order, SimConfig, SimDriver};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::config;
use crate::driver::{self, ALL, Unwinding, When, until_unwound};
use crate::faults::{Breach, Faults, Place};
use crate::plan::{Plan, Shape, plan};
use crate::run::run;
use crate::side::Tally;

/// Runs of a plan in which a call breaks the contract.
const BREACHES: usize = 12;

/// Methods that change what a graph does, or how long it keeps what it uses. Half of the chosen
/// calls are calls of these.
const OF_GRAPHS: &[&str] = &[
    "begin_capture",
    "end_capture",
    "update_graph",
    "launch_graph",
    "destroy_graph",
    "launch_host_function",
];

/// Chooses one of the calls that a plan makes.
#[derive(Clone, Debug)]
struct Choice {
    of_graphs: bool,
    method: Index,
    call: Index,
    when: When,
}

fn choice() -> impl Strategy<Value = Choice> {
    let when = prop::sample::select(&ALL[..]);
    (any::<bool>(), any::<Index>(), any::<Index>(), when).prop_map(|(of_graphs, method, call, when)| Choice {
        of_graphs,
        method,
        call,
        when,
    })
}

impl Choice {
    fn place(&self, calls: &[&'static str]) -> Place {
        let pairs = calls.windows(2).map(|pair| (pair[0], pair[1]));
        let mut kinds: Vec<_> = pairs.clone().collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut of_graphs = kinds.clone();
        of_graphs.retain(|(_, method)| OF_GRAPHS.contains(method));
        if self.of_graphs && !of_graphs.is_empty() {
            kinds = of_graphs;
        }
        let kind = *self.method.get(&kinds);
        let places: Vec<usize> = (1..)
            .zip(pairs)
            .filter(|(_, pair)| *pair == kind)
            .map(|(at, _)| at)
            .collect();
        let (place, method) = (*self.call.get(&places), kind.1);
        let number = calls[..=place].iter().filter(|call| **call == method).count();
        Place {
            method,
            number: number as u64,
            when: self.when,
        }
    }
}

/// Runs a plan on two devices of one host. Returns a tally, unless the end of the devices unwinds.
fn simulate(plan: &Plan, breach: Breach) -> Option<Tally> {
    let orders = [Order::Random, Order::Lazy, Order::Eager];
    let config = SimConfig::new()
        .seed(u64::from(plan.seed))
        .order(orders[usize::from(plan.seed) % orders.len()])
        .check(Check::Record);
    let simulated = SimDriver::new(config);
    let zero = Unwinding::over(simulated.clone(), &breach.calls);
    let one = Unwinding::over(simulated.another(), &breach.calls);
    let faults = Faults::Breach(breach);
    let tally = until_unwound(|| {
        Device::with_driver(zero, |zero| {
            Device::with_driver(one, |one| run(plan, (zero, one), (None, None), &faults))
        })
    });
    let races = simulated.races();
    assert!(races.is_empty(), "{}", races[0]);
    tally.map(|tally| tally.flatten().expect("the devices open without a fault"))
}

/// Sums over all runs with a fault.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    plans: u64,
    runs: u64,
    /// Runs in which the chosen call was made.
    broken: u64,
    tally: Tally,
}

impl Sum {
    /// Runs a plan without a fault, and then once for each choice.
    fn add(&mut self, plan: &Plan, choices: &[Choice]) -> Result<(), TestCaseError> {
        let whole = Breach::default();
        simulate(plan, whole.clone());
        let calls = whole.calls.recorded();
        self.plans += 1;
        for choice in choices {
            let place = choice.place(&calls);
            let breach = Breach {
                calls: driver::Plan::default(),
                place: Some(place),
            };
            let ended = catch_unwind(AssertUnwindSafe(|| simulate(plan, breach.clone())));
            let tally =
                ended.map_err(|payload| TestCaseError::fail(format!("{place:?}: {}", message(payload))))?;
            self.runs += 1;
            self.broken += u64::from(breach.calls.has_unwound());
            self.tally += tally.unwrap_or_default();
        }
        Ok(())
    }
}

#[test]
fn a_call_that_unwinds_or_is_denied_shows_no_wrong_byte_and_no_race() {
    let shape = Shape {
        most_steps: 16,
        threads: false,
        faults: false,
        updates: true,
        graphs: 60,
    };
    let sum = Cell::new(Sum::default());
    let choices = prop::collection::vec(choice(), BREACHES);
    let result = TestRunner::new(config(250, 5_000)).run(&(plan(shape), choices), |(plan, choices)| {
        let mut added = sum.get();
        let result = added.add(&plan, &choices);
        sum.set(added);
        result
    });
    let Sum {
        plans,
        runs,
        broken,
        tally,
    } = sum.get();
    println!(
        "{plans} programs in {runs} runs, {broken} of them with a broken call: {} acts, {} buffers compared behind \
         it, {} graphs given another bundle, {} calls refused",
        tally.acts, tally.compared_later, tally.replaced, tally.refused,
    );
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(broken * 10 >= runs * 9, "few calls break the contract");
    assert!(tally.compared_later > broken, "too little is looked at");
    assert!(tally.refused > 0 && tally.replaced > 0, "{tally:?}");
}
