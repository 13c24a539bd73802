//! Each driver call breaks the contract in turn: it unwinds before it is made or after it, or it is
//! made and returns an error. No wrong bytes and no race may follow, on any thread.

use std::cell::RefCell;
use std::future::IntoFuture;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use cuda_rt::checker::Check;
use cuda_rt::driver::DriverWithTools;
use cuda_rt::pipeline::Pipeline;
use cuda_rt::simulator::{Order, SimConfig, SimDriver};
use cuda_rt::{Communicator, Device, Live, Reduction, Result};

use crate::block_on::block_on;
use crate::driver::{ALL, Plan, Unwinding, follows, until_unwound};
use crate::programs::{Download, LEN, Streams, Upload, program};
use crate::tensors::tensors;

/// A program that runs with one of its calls unwinding.
trait Program {
    fn run<D: Live, E: Live>(&self, here: &Device<D>, there: &Device<E>) -> Result<()>;
}

/// The whole typed core, on one device.
struct Core;

impl Program for Core {
    fn run<D: Live, E: Live>(&self, here: &Device<D>, _: &Device<E>) -> Result<()> {
        program(here)
    }
}

/// Waits of tasks and closures, whose queries another thread makes.
struct Waits;

impl Program for Waits {
    fn run<D: Live, E: Live>(&self, here: &Device<D>, _: &Device<E>) -> Result<()> {
        let streams = Streams::new(here)?;
        let mut futures = Vec::new();
        for value in 60..63 {
            futures.push(
                streams
                    .downloading(here, streams.uploaded(here, value)?)?
                    .into_future(),
            );
        }
        for (future, value) in futures.into_iter().zip(60..) {
            assert_eq!(*block_on(future)?, [value; LEN]);
        }
        drop(
            streams
                .downloading(here, streams.uploaded(here, 63)?)?
                .into_future(),
        );
        Ok(())
    }
}

/// A pipeline with each stage on its own thread.
struct Stages;

impl Program for Stages {
    fn run<D: Live, E: Live>(&self, here: &Device<D>, _: &Device<E>) -> Result<()> {
        let mut seen = Vec::new();
        let ended = Pipeline::new(here, 2)
            .source(LEN, 0..6_u32, |item, pinned: &mut [u32]| {
                pinned.fill(*item);
                Ok(pinned.len())
            })
            .upload::<Upload<D>>()
            .download::<Download<D>>()
            .sink(|item, elements: &[u32]| {
                seen.push((item, elements.to_vec()));
                Ok(())
            })
            .run();
        for (place, (item, elements)) in seen.iter().enumerate() {
            assert_eq!(*item as usize, place);
            assert_eq!(*elements, [*item; LEN]);
        }
        match ended {
            Ok(_) => Ok(()),
            Err(error) => match error.cause {
                cuda_rt::pipeline::Cause::Device(error) => Err(error),
                cuda_rt::pipeline::Cause::Panicked(panic) => panic.resume(),
                other => panic!("{other}"),
            },
        }
    }
}

/// Copies between two devices, and collectives of both.
struct Peers;

impl Program for Peers {
    fn run<D: Live, E: Live>(&self, here: &Device<D>, there: &Device<E>) -> Result<()> {
        let (ours, theirs) = (Streams::new(here)?, Streams::new(there)?);
        let source = theirs.uploaded(there, 70)?;
        let mut copy = ours.compute.alloc_zeroed::<u32>(LEN)?;
        let source = ours
            .compute
            .copy_from_peer(theirs.compute.release(source)?, .., &mut copy)?;
        let mut source = theirs.compute.acquire(source)?;
        theirs.compute.fill(&mut source, 71)?;
        let spare = theirs.compute.release(theirs.compute.alloc_zeroed::<u32>(LEN)?)?;
        drop(ours.compute.copy_to_peer(&copy, spare, ..)?);
        // If memory was freed early, this buffer gets the same memory.
        let mut next = theirs.compute.alloc_zeroed::<u32>(LEN)?;
        theirs.compute.fill(&mut next, 72)?;
        ours.check(here, copy, 70)?;
        theirs.check(there, next, 72)?;

        let mut lent = ours.compute.acquire_peer(theirs.compute.release(source)?)?;
        ours.compute.fill(&mut lent[..LEN / 2], 73)?;
        let mut dropped = ours
            .compute
            .acquire_peer(theirs.compute.release(theirs.compute.alloc_zeroed::<u32>(LEN)?)?)?;
        ours.compute.fill(&mut dropped, 74)?;
        drop(dropped);
        let mut next = theirs.compute.alloc_zeroed::<u32>(LEN)?;
        theirs.compute.fill(&mut next, 75)?;
        let source = ours.compute.release(lent)?.for_its_device();
        let mut source = theirs.compute.acquire(source)?;
        theirs.compute.fill(&mut source[LEN / 2..], 73)?;
        theirs.check(there, source, 73)?;
        theirs.check(there, next, 75)?;

        let ranks = Communicator::new((here, there))?;
        let (mut a, mut b) = (
            ours.compute.alloc_zeroed::<u32>(LEN)?,
            theirs.compute.alloc_zeroed::<u32>(LEN)?,
        );
        ours.compute.fill(&mut a, 3)?;
        theirs.compute.fill(&mut b, 4)?;
        let (a, b) = ranks.all_reduce(Reduction::Sum, (ours.compute.rank(a), theirs.compute.rank(b)))?;
        ours.check(here, a, 7)?;
        theirs.check(there, b, 7)
    }
}

/// Tensors of DLPack.
struct Tensors;

impl Program for Tensors {
    fn run<D: Live, E: Live>(&self, here: &Device<D>, _: &Device<E>) -> Result<()> {
        tensors(here)
    }
}

/// A recording, which takes every span with events around it.
struct Recorded;

impl Program for Recorded {
    fn run<D: Live, E: Live>(&self, here: &Device<D>, _: &Device<E>) -> Result<()> {
        let recording = here.record_timeline_by_events()?;
        let streams = Streams::new(here)?;
        streams.check(here, streams.uploaded(here, 80)?, 80)?;
        recording.finish()?;
        Ok(())
    }
}

/// Checks that an error came only from the call that unwound.
fn clear(context: &str, result: Option<&Result<()>>) {
    if let Some(Err(error)) = result {
        assert!(follows(error), "{context}: {error}");
    }
}

/// Two devices of one host, whose calls are counted together.
fn drivers(config: &SimConfig, plan: &Plan) -> (Arc<dyn DriverWithTools>, Arc<dyn DriverWithTools>) {
    let first = SimDriver::new(config.clone().check(Check::Record));
    let second = first.another();
    (Unwinding::over(first, plan), Unwinding::over(second, plan))
}

/// Runs the program twice on the same devices, the second time after `arm`.
fn run_twice<P: Program>(program: &P, config: &SimConfig, plan: &Plan, arm: impl Fn(), context: &str) {
    let (first, second) = drivers(config, plan);
    let last = Arc::clone(&first);
    // Threads make a varying number of calls: a fault left from an earlier run is not due now.
    plan.count();
    // Once more at the end of the devices.
    until_unwound(|| {
        Device::with_driver(first, |here| {
            Device::with_driver(second, |there| {
                let streams = Streams::new(&here).unwrap();
                // In flight during the run, and read at the end.
                let witness = streams
                    .downloading(&here, streams.uploaded(&here, 77).unwrap())
                    .unwrap();
                arm();
                for _ in 0..2 {
                    clear(context, until_unwound(|| program.run(&here, &there)).as_ref());
                }
                if let Some(Ok(host)) = until_unwound(|| witness.synchronize()) {
                    assert_eq!(*host, [77; LEN], "{context}");
                }
            })
            .unwrap();
        })
        .unwrap();
    });
    let races = last.races();
    assert!(races.is_empty(), "{context}: {}", races[0]);
}

/// Makes each call of both runs unwind once, in each way. Returns how many did. Each run has
/// devices of its own, so all processors take part.
fn sweep<P: Program + Sync>(program: &P, configs: impl IntoIterator<Item = SimConfig>) -> u64 {
    let unwound = AtomicU64::new(0);
    for config in configs {
        let plan = Plan::default();
        run_twice(program, &config, &plan, || plan.count(), "nothing unwinds");
        let calls = plan.calls();
        let next = AtomicU64::new(0);
        let run = || {
            let plan = Plan::default();
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                let Some(&when) = ALL.get((turn / calls) as usize) else {
                    return;
                };
                let nth = turn % calls + 1;
                let context = format!("call {nth} of {calls}, {when:?}, seed {}", config.seed);
                run_twice(program, &config, &plan, || plan.arm(None, nth, when), &context);
                unwound.fetch_add(u64::from(plan.has_unwound()), Ordering::Relaxed);
            }
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(run);
            }
            run();
        });
    }
    let unwound = unwound.into_inner();
    println!("{unwound} calls unwound");
    unwound
}

fn configurations() -> impl Iterator<Item = SimConfig> {
    let orders = [(1, Order::Random), (2, Order::Random), (9, Order::Lazy)];
    orders
        .into_iter()
        .map(|(seed, order)| SimConfig::new().seed(seed).order(order))
}

#[test]
fn each_call_of_the_core_that_unwinds_leaves_no_wrong_bytes_and_no_race() {
    assert!(sweep(&Core, configurations()) > 5000);
}

#[test]
fn each_call_that_waits_for_a_task_and_unwinds_ends_the_wait() {
    assert!(sweep(&Waits, configurations()) > 500);
}

#[test]
fn each_call_of_a_pipeline_that_unwinds_leaves_no_wrong_bytes_and_no_race() {
    assert!(sweep(&Stages, configurations()) > 500);
}

#[test]
fn each_call_of_an_exchanged_tensor_that_unwinds_leaves_no_wrong_bytes_and_no_race() {
    assert!(sweep(&Tensors, configurations()) > 200);
}

#[test]
fn each_call_of_a_recording_that_unwinds_leaves_no_wrong_bytes_and_no_race() {
    assert!(sweep(&Recorded, configurations()) > 200);
}

#[test]
fn each_call_between_devices_that_unwinds_leaves_no_wrong_bytes_and_no_race() {
    assert!(sweep(&Peers, configurations()) > 500);
}

/// One call unwinds on one of several threads that share the device and its streams.
#[test]
fn a_call_that_unwinds_on_one_thread_leaves_the_others_right() {
    let config = SimConfig::new().seed(3);
    let mut unwound = 0;
    for nth in (1..1800).step_by(7) {
        for when in ALL {
            let context = format!("call {nth} unwinds {when:?}");
            let plan = Plan::default();
            let (first, _) = drivers(&config, &plan);
            let last = Arc::clone(&first);
            until_unwound(|| {
                Device::with_driver(first, |gpu| {
                    plan.arm(None, nth, when);
                    thread::scope(|scope| {
                        for _ in 0..3 {
                            scope.spawn(|| clear(&context, until_unwound(|| program(&gpu)).as_ref()));
                        }
                    });
                })
                .unwrap();
            });
            unwound += u64::from(plan.has_unwound());
            assert!(last.races().is_empty(), "{context}: {}", last.races()[0]);
        }
    }
    assert!(unwound > 200, "{unwound}");
}

type Job = Box<dyn FnOnce()>;

struct Late(RefCell<Option<Job>>);

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(job) = self.0.borrow_mut().take() {
            job();
        }
    }
}

thread_local! {
    static LATE: Late = const { Late(RefCell::new(None)) };
}

/// Runs `job` in the destructor of a thread-local, as its thread ends.
fn in_a_destructor(job: impl FnOnce() + Send + 'static) {
    let ended = thread::spawn(move || LATE.with(|late| *late.0.borrow_mut() = Some(Box::new(job)))).join();
    ended.expect("what unwinds is caught in the destructor");
}

#[test]
fn a_call_that_unwinds_in_the_destructor_of_a_thread_local_leaves_no_wrong_bytes() {
    for when in ALL {
        for nth in (1..1500).step_by(11) {
            // A panic here would end the process, so failures are reported by a value.
            let (sender, receiver) = std::sync::mpsc::channel();
            in_a_destructor(move || {
                let config = SimConfig::new().seed(5);
                let plan = Plan::default();
                let run = || {
                    run_twice(
                        &Core,
                        &config,
                        &plan,
                        || plan.arm(None, nth, when),
                        "in a destructor",
                    )
                };
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                let _ = sender.send(outcome.is_ok());
            });
            assert_eq!(receiver.recv(), Ok(true), "call {nth} unwinds {when:?}");
        }
    }
}
