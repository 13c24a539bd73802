//! Closures of a scope: they borrow, and the scope waits for them, whatever happens in it.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Handoff, PinnedBuffer, Result, done_scope};

use crate::order::in_flight::{Host, Streams, configurations, nothing_is_left, process_wide};

#[test]
fn closures_of_a_scoped_device_borrow_and_are_over_when_the_scope_is() {
    for config in configurations() {
        let simulator = Device::simulated(config, |gpu| {
            let streams = Streams::new(&gpu);
            let seen = Mutex::new(Vec::new());
            let mut kept = Vec::new();
            let all = &mut kept;
            done_scope(|scope| {
                for value in 0..50 {
                    let seen = &seen;
                    let run = move |host: Result<Host<_>>| seen.lock().unwrap().push(host.unwrap()[0]);
                    streams.downloading(value).on_done_in(scope, run).unwrap();
                }
                // The bundle itself gets out, to what the closure borrows for itself alone.
                let keep = move |host: Result<Host<_>>| all.push(host.unwrap());
                streams.downloading(77).on_done_in(scope, keep).unwrap();
            });
            let mut seen = seen.into_inner().unwrap();
            seen.sort_unstable();
            assert_eq!(seen, (0..50).collect::<Vec<_>>());
            assert_eq!(kept[0][0], 77);
            gpu.simulator().unwrap().clone()
        });
        nothing_is_left(&simulator.unwrap());
    }
}

#[test]
fn a_scope_gives_back_what_its_body_returns() {
    let gpu = process_wide();
    let value = done_scope(|scope| {
        let handoff = Handoff::ready(gpu.pinned_from(&[5u32]).unwrap());
        let mut first = 0;
        // The closure of an idle bundle runs at once, on this thread.
        let here = thread::current().id();
        handoff
            .on_done_in(scope, move |host| {
                assert_eq!(thread::current().id(), here);
                first += host.unwrap()[0];
                assert_eq!(first, 5);
            })
            .unwrap();
        7
    });
    assert_eq!(value, 7);
}

/// The closures begin only after the body has panicked: a gate, which opens during the unwinding,
/// holds them back.
#[test]
fn h26_a_scope_whose_body_panics_waits_for_its_closures() {
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let over = AtomicUsize::new(0);
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        done_scope(|scope| {
            for value in 0..3 {
                let (over, gate) = (&over, &gate);
                let run = move |host: Result<Host<_>>| {
                    // Ends when the sender is dropped.
                    let _ = gate.lock().unwrap().recv();
                    thread::sleep(Duration::from_millis(20));
                    assert_eq!(host.unwrap()[0], value);
                    over.fetch_add(1, Ordering::SeqCst);
                };
                streams.downloading(value).on_done_in(scope, run).unwrap();
            }
            let _open = open;
            panic!("the body of the test panics");
        })
    }));
    assert_eq!(
        caught.unwrap_err().downcast_ref(),
        Some(&"the body of the test panics")
    );
    assert_eq!(over.load(Ordering::SeqCst), 3);
}

#[test]
fn h26_a_closure_that_panics_ends_the_scope_with_a_panic_after_all_others() {
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let over = AtomicUsize::new(0);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        done_scope(|scope| {
            for value in 0..10 {
                let over = &over;
                let run = move |host: Result<Host<_>>| {
                    assert!(host.unwrap()[0] % 2 == 0, "a closure of the test panics");
                    thread::sleep(Duration::from_millis(2));
                    over.fetch_add(1, Ordering::SeqCst);
                };
                streams.downloading(value).on_done_in(scope, run).unwrap();
            }
        })
    }));
    let payload = caught.unwrap_err();
    let text = payload.downcast_ref::<&str>().expect("a literal");
    assert!(text.contains("closure of this `done_scope` panicked"), "{text}");
    assert_eq!(over.load(Ordering::SeqCst), 5);
}

/// A closure that never runs is dropped, and its captures are over before the scope is.
#[test]
fn h26_a_closure_that_gets_an_error_or_never_runs_is_over_with_its_captures() {
    struct Slow<'a>(&'a AtomicBool);
    impl Drop for Slow<'_> {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(20));
            self.0.store(true, Ordering::SeqCst);
        }
    }
    for config in configurations() {
        Device::simulated(config, |gpu| {
            let streams = Streams::new(&gpu);
            let handoff = streams.downloading(1);
            let simulator = gpu.simulator().unwrap();
            simulator.fail_nth(Call::QueryEvent, 1, ErrorCode::OUT_OF_MEMORY);
            let (dropped, failed) = (AtomicBool::new(false), AtomicBool::new(false));
            done_scope(|scope| {
                let slow = Slow(&dropped);
                let failed = &failed;
                let run = move |host: Result<Host<_>>| {
                    let _slow = slow;
                    failed.store(host.is_err(), Ordering::SeqCst);
                };
                handoff.on_done_in(scope, run).unwrap();
            });
            assert!(dropped.load(Ordering::SeqCst));
            assert!(failed.load(Ordering::SeqCst), "the query fails");
        })
        .unwrap();
    }
}

#[test]
fn a_closure_of_a_scope_may_add_another() {
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let seen = Mutex::new(Vec::new());
    done_scope(|scope| {
        let (streams, seen) = (&streams, &seen);
        let run = move |host: Result<Host<_>>| {
            seen.lock().unwrap().push(host.unwrap()[0]);
            let run = move |host: Result<Host<_>>| {
                thread::sleep(Duration::from_millis(20));
                seen.lock().unwrap().push(host.unwrap()[0]);
            };
            streams.downloading(2).on_done_in(scope, run).unwrap();
        };
        streams.downloading(1).on_done_in(scope, run).unwrap();
    });
    assert_eq!(seen.into_inner().unwrap(), [1, 2]);
}

/// A scope inside a closure would wait for the thread that runs it.
#[test]
fn h44_a_scope_in_a_closure_panics_and_does_not_wait_for_itself() {
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let refused = AtomicBool::new(false);
    done_scope(|scope| {
        let refused = &refused;
        let run = move |_: Result<Host<_>>| {
            let inner = catch_unwind(|| done_scope(|_| ()));
            refused.store(inner.is_err(), Ordering::SeqCst);
        };
        streams.downloading(1).on_done_in(scope, run).unwrap();
    });
    assert!(refused.load(Ordering::SeqCst));
}

/// What leaks does not keep a closure out of the scope's count.
#[test]
fn attack_leak_what_a_closure_holds_and_what_the_scope_gives() {
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let over = AtomicUsize::new(0);
    done_scope(|scope| {
        #[allow(clippy::mem_forget, reason = "the attack: nothing is left that could wait")]
        std::mem::forget((scope, Box::new(scope)));
        let over = &over;
        let run = move |host: Result<Host<_>>| {
            thread::sleep(Duration::from_millis(20));
            let host: PinnedBuffer<u32> = host.unwrap();
            over.fetch_add(1, Ordering::SeqCst);
            std::mem::forget(host);
        };
        streams.downloading(1).on_done_in(scope, run).unwrap();
    });
    assert_eq!(over.load(Ordering::SeqCst), 1);
}

/// The code says that the process ends, which it does not.
#[test]
fn a_query_that_fails_as_at_the_end_of_the_process_ends_the_scope() {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        let done = Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
            let host = Streams::new(&gpu).downloading(7);
            let simulator = gpu.simulator().unwrap();
            simulator.fail_next(Call::QueryEvent, ErrorCode::DEINITIALIZED);
            let told = Mutex::new(None);
            done_scope(|scope| {
                let run = |host: Result<Host<_>>| *told.lock().unwrap() = Some(host.map(drop));
                host.on_done_in(scope, run).unwrap();
            });
            told.into_inner().unwrap().unwrap().unwrap_err()
        });
        ended.send(done.unwrap()).unwrap();
    });
    let error = end.recv_timeout(Duration::from_secs(60)).expect("the scope ends");
    assert_eq!(error.driver().unwrap().code(), ErrorCode::DEINITIALIZED);
}
