//! Property 1: in every order a plan computes the model's result, and the checker reports nothing.

use std::cell::Cell;
use std::sync::mpsc::channel;

use cuda_rt::checker::Check;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Gpu, Handoff, Live, Result};
use proptest::test_runner::TestRunner;

use crate::config;
use crate::faults::Faults;
use crate::object::IdleBundle;
use crate::plan::{Plan, Shape, plan};
use crate::run::run;
use crate::side::Tally;

/// The orders in which each plan runs. Two of them run without a checker, so only the bytes can
/// show an error.
fn orders(seed: u64) -> [SimConfig; 4] {
    let config = |order| SimConfig::new().seed(seed).order(order);
    [
        config(Order::Random),
        config(Order::Lazy),
        config(Order::Random).seed(seed + 1).check(Check::Off),
        config(Order::Starve).check(Check::Off),
    ]
}

/// Runs a plan on two simulated devices of one host. Returns a tally, and the number of driver
/// calls.
fn simulate(plan: &Plan, config: &SimConfig, faults: &Faults) -> (Tally, u64) {
    Device::simulated(config.clone(), |zero| {
        let simulator = zero.simulator().expect("simulated").clone();
        let tally = zero.simulated_peer(|one| run(plan, (zero.clone(), one), (None, None), faults));
        assert_eq!(simulator.races(), []);
        let counters = simulator.counters();
        let calls = Call::ALL.iter().map(|call| counters.calls(*call)).sum();
        (tally.expect("no fault yet"), calls)
    })
    .expect("no fault yet")
}

/// Waits in a closure of the completion thread.
fn on_done(handoff: Handoff<IdleBundle<Gpu<0>>>) -> Result<IdleBundle<Gpu<0>>> {
    let (sender, receiver) = channel();
    handoff.on_done(move |idle| {
        let _ = sender.send(idle);
    })?;
    receiver.recv().expect("the closure ran")
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
        let faults = if shape.faults {
            Faults::Errors
        } else {
            Faults::Never
        };
        for config in orders(u64::from(plan.seed)) {
            let (done, made) = simulate(&plan, &config, &faults);
            calls.set(calls.get() + made);
            let mut sum = tally.get();
            sum += done;
            tally.set(sum);
        }
        Ok(())
    });
    let sum = tally.get();
    println!(
        "{} programs of {} steps in all, each in 4 orders: {} acts, {} driver calls, {} buffers compared, {} graphs \
         updated, {} given another bundle, {} calls refused, {} functions of the host panicked",
        plans.get(),
        steps.get(),
        sum.acts,
        calls.get(),
        sum.compared,
        sum.updated,
        sum.replaced,
        sum.refused,
        sum.host_panics,
    );
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(sum.compared > plans.get(), "too little is looked at");
    let replaces = plans.get() < 100 || sum.replaced > 0;
    assert!(replaces, "no graph gets another bundle");
    let panics = !shape.faults || plans.get() < 100 || sum.host_panics > 0;
    assert!(panics, "no function of the host panics");
    println!("{:?}", sum.counts);
    sum.counts.judge(plans.get());
}

const SAFE: Shape = Shape {
    most_steps: 40,
    threads: true,
    faults: false,
    updates: true,
    graphs: 5,
};

#[test]
fn every_order_computes_the_models_result_without_a_race() {
    property(config(300, 10_000), SAFE);
}

/// Some calls fail: no wrong byte is shown, and every value that an error returns can be used.
#[test]
fn with_calls_that_fail_no_wrong_byte_is_shown() {
    property(config(150, 10_000), Shape { faults: true, ..SAFE });
}

/// Runs all plans on GPU 0, or on one simulated device that lives as long as the process. Here
/// closures are another way to wait.
#[test]
fn one_device_runs_them_one_after_another() {
    let gpu = Device::open_or_simulate_with(SimConfig::new().seed(5)).unwrap();
    if gpu.is_simulated() {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "CUDA_RT_REQUIRE_GPU is set, and there is no GPU"
        );
        eprintln!("SKIPPED ON CUDA: there is no GPU");
    }
    if gpu.is_simulated() {
        gpu.simulated_peer(|second| one_after_another(&gpu, &second))
            .unwrap();
    } else {
        // A second instance on the same GPU, with its own streams.
        Device::with_gpu(0, |second| one_after_another(&gpu, &second)).unwrap();
    }
    assert_eq!(gpu.races(), []);
}

fn one_after_another<E: Live>(first: &Device, second: &Device<E>) {
    let done = Cell::new(Tally::default());
    let result = TestRunner::new(config(60, 4_000)).run(&plan(SAFE), |plan| {
        let mut sum = done.get();
        let devices = (first.clone(), second.clone());
        sum += run(&plan, devices, (Some(on_done), None), &Faults::Never);
        done.set(sum);
        Ok(())
    });
    let Tally { acts, compared, .. } = done.get();
    println!("{first:?}: {acts} acts, {compared} buffers compared");
    result.unwrap_or_else(|error| panic!("{error}"));
}
