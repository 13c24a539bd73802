//! Property 1: in every order a plan computes what the model says, and the checker reports nothing.

use std::cell::Cell;

use cuda_rt::Device;
use cuda_rt::driver::sim::{Call, Order, SimConfig, Simulator};
use proptest::test_runner::TestRunner;

use crate::config;
use crate::plan::{Plan, Shape, plan};
use crate::run::run;
use crate::side::Tally;

/// Orders in which each plan runs.
fn orders(seed: u64) -> [SimConfig; 4] {
    let config = |seed| SimConfig::new().seed(seed);
    [
        config(seed),
        config(seed + 1),
        config(seed + 2),
        config(seed).order(Order::Lazy),
    ]
}

/// Runs a plan on two simulated devices; what was done, with the driver calls that it took.
fn simulate(plan: &Plan, config: &SimConfig, faulty: bool) -> (Tally, u64) {
    let done = |zero: Simulator, one: Simulator, tally| {
        let made = [&zero, &one].map(|device| {
            assert_eq!(device.races(), []);
            let counters = device.counters();
            Call::ALL.iter().map(|call| counters.calls(*call)).sum::<u64>()
        });
        (tally, made.iter().sum())
    };
    Device::simulated(config.clone(), |zero| {
        Device::simulated(config.clone().seed(config.seed ^ 0xff), |one| {
            let simulators =
                [zero.simulator(), one.simulator()].map(|simulator| simulator.expect("simulated").clone());
            let tally = run(plan, (zero, one), (None, None), faulty);
            let [zero, one] = simulators;
            done(zero, one, tally)
        })
        .expect("no fault yet")
    })
    .expect("no fault yet")
}

fn property(cases: proptest::test_runner::Config, shape: Shape) {
    let (plans, steps, calls, tally) = (
        Cell::new(0u64),
        Cell::new(0u64),
        Cell::new(0u64),
        Cell::new(Tally::default()),
    );
    let result = TestRunner::new(cases).run(&plan(shape), |plan| {
        plans.set(plans.get() + 1);
        steps.set(steps.get() + plan.steps() as u64);
        for config in orders(u64::from(plan.seed)) {
            let (done, made) = simulate(&plan, &config, shape.faults);
            calls.set(calls.get() + made);
            let mut sum = tally.get();
            sum += done;
            tally.set(sum);
        }
        Ok(())
    });
    let sum = tally.get();
    println!(
        "{} programs of {} steps in all, each in 4 orders: {} acts, {} driver calls, {} buffers compared, {} calls refused",
        plans.get(),
        steps.get(),
        sum.acts,
        calls.get(),
        sum.compared,
        sum.refused,
    );
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(sum.compared > plans.get(), "too little is looked at");
}

const SAFE: Shape = Shape {
    most_steps: 40,
    threads: true,
    faults: false,
    all: true,
};

#[test]
fn every_order_computes_what_the_model_says_and_none_races() {
    property(config(150, 40_000), SAFE);
}

/// Calls fail here and there: no wrong byte is shown, and what an error gives back can be used.
#[test]
fn with_calls_that_fail_no_wrong_byte_is_shown() {
    property(config(150, 40_000), Shape { faults: true, ..SAFE });
}
