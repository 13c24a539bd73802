//! The thread that waits for tasks: wake-ups, closures, and calls that fail.
#![forbid(unsafe_code)]

mod attacks;
mod scope;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread::{self, ThreadId};

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::Call;
use cuda_rt::{Device, Handoff, Result};

use crate::block_on::block_on;
use crate::order::in_flight::{
    Host, LEN, PATIENCE, Streams, configurations, join, nothing_is_left, process_wide,
};

#[test]
fn a_waker_that_panics_or_drops_other_futures_stops_no_other_wake_up() {
    struct Panics(Arc<AtomicUsize>);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("a waker of the test panics");
        }
    }
    /// Drops its contents when it is woken.
    struct Drops<T>(Mutex<Option<T>>);
    impl<T: Send> Wake for Drops<T> {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    // More work at a time than one poll sees done, so that most of it is pending at the first poll.
    let some = |count| {
        (0..count)
            .map(|value| streams.downloading(value).into_future())
            .collect::<Vec<_>>()
    };
    let (mut victims, mut futures) = (some(1500), some(1500));
    let panics = Arc::new(AtomicUsize::new(0));
    let mut to_panic = 0;
    for (future, number) in futures.iter_mut().zip(0..) {
        let waker = match number % 2 {
            0 => Waker::from(Arc::new(Panics(Arc::clone(&panics)))),
            _ => Waker::from(Arc::new(Drops(Mutex::new(Some(victims.pop()))))),
        };
        let pending = Pin::new(future)
            .poll(&mut Context::from_waker(&waker))
            .is_pending();
        to_panic += usize::from(pending && number % 2 == 0);
    }
    // A GPU may have finished all of them by then.
    assert!(to_panic > 1 || !gpu.is_simulated(), "nothing was pending");
    for value in 0..20 {
        let after = block_on(join(some(20)));
        assert_eq!(
            *after.into_iter().nth(value as usize).unwrap().unwrap(),
            [value; LEN]
        );
    }
    let woken = panics.load(Ordering::SeqCst);
    assert!(
        woken <= to_panic && (woken > 0 || to_panic == 0),
        "{woken} of {to_panic} woken"
    );
    for (future, value) in futures.into_iter().zip(0..) {
        if let Some(handoff) = future.into_handoff() {
            assert_eq!(*block_on(handoff).unwrap(), [value; LEN]);
        }
    }
}

#[test]
fn a_query_that_fails_once_ends_that_future_with_the_error_and_frees_behind_the_event() {
    for config in configurations() {
        for nth in 1..40 {
            let simulator = Device::simulated(config.clone(), |gpu| {
                let simulator = gpu.simulator().unwrap().clone();
                let streams = Streams::new(&gpu);
                // Reuse of a block whose copy may be pending makes a query too. These blocks are
                // idle.
                let blocks: Vec<_> = (0..9).map(|_| gpu.pinned::<u32>(LEN).unwrap()).collect();
                drop(blocks);
                let futures: Vec<_> = (0..8)
                    .map(|value| streams.downloading(value).into_future())
                    .collect();
                simulator.fail_nth(Call::QueryEvent, nth, ErrorCode::OUT_OF_MEMORY);
                let hosts = block_on(join(futures));
                let mut failed = 0;
                for (host, value) in hosts.into_iter().zip(0..) {
                    match host {
                        Ok(host) => assert_eq!(*host, [value; LEN]),
                        Err(error) => {
                            failed += 1;
                            assert!(error.to_string().contains("injected"), "{error}");
                            assert!(error.to_string().starts_with("Handoff::await"), "{error}");
                        }
                    }
                }
                assert!(failed <= 1);
                simulator.clear_faults();
                assert_eq!(*block_on(streams.downloading(50)).unwrap(), [50; LEN]);
                simulator
            })
            .unwrap();
            nothing_is_left(&simulator);
        }
    }
}

#[test]
fn every_future_is_woken_with_the_error_once_the_device_is_lost() {
    for config in configurations() {
        for nth in [1, 2, 30, 333] {
            Device::simulated(config.clone(), |gpu| {
                let simulator = gpu.simulator().unwrap();
                let streams = Streams::new(&gpu);
                let futures: Vec<_> = (0..1000)
                    .map(|value| streams.downloading(value).into_future())
                    .collect();
                simulator.fail_nth(Call::QueryEvent, nth, ErrorCode::LAUNCH_FAILED);
                let hosts = block_on(join(futures));
                let lost = hosts.iter().filter(|host| host.is_err()).count();
                assert!(lost > 0, "{config:?}");
                for (host, value) in hosts.into_iter().zip(0..) {
                    match host {
                        Ok(host) => assert_eq!(*host, [value; LEN]),
                        Err(error) => assert!(error.is_sticky(), "{error}"),
                    }
                }
            })
            .unwrap();
        }
    }
}

#[test]
fn closures_run_off_the_calling_thread_and_may_call_cuda() {
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let (sender, receiver) = mpsc::channel::<(ThreadId, u32)>();
    for value in 0..200 {
        let (sender, gpu) = (sender.clone(), gpu.clone());
        streams
            .downloading(value)
            .on_done(move |host| {
                let host = host.unwrap();
                // H44: in a CUDA callback this would be an error or a deadlock.
                let again = Streams::new(&gpu).downloading(host[0] + 1000);
                let again = if value % 2 == 0 {
                    again.synchronize()
                } else {
                    block_on(again)
                };
                sender.send((thread::current().id(), again.unwrap()[0])).unwrap();
            })
            .unwrap();
    }
    drop(sender);
    let mut seen = BTreeSet::new();
    let mut threads = Vec::new();
    while let Ok((thread, value)) = receiver.recv_timeout(PATIENCE) {
        threads.push(thread);
        assert!(seen.insert(value));
    }
    assert_eq!(seen, (1000..1200).collect());
    threads.dedup();
    assert_eq!(threads.len(), 1, "one after another, on one thread");
    assert_ne!(threads[0], thread::current().id());
}

#[test]
fn a_closure_that_panics_stops_no_other() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            assert!(thread::panicking(), "a payload of the test panics");
        }
    }
    let gpu = process_wide();
    let streams = Streams::new(&gpu);
    let (sender, receiver) = mpsc::channel();
    for value in 0..10 {
        let sender = sender.clone();
        let run = move |host: Result<Host<_>>| {
            if value % 2 == 0 {
                std::panic::panic_any(PanicsOnDrop);
            }
            sender.send(host.unwrap()[0]).unwrap();
        };
        streams.downloading(value).on_done(run).unwrap();
    }
    drop(sender);
    let mut seen: Vec<_> = std::iter::from_fn(|| receiver.recv_timeout(PATIENCE).ok()).collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 3, 5, 7, 9]);
}

#[test]
fn the_closure_of_an_idle_bundle_runs_at_once() {
    let gpu = process_wide();
    let thread = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&thread);
    Handoff::ready(gpu.pinned_from(&[1u32, 2]).unwrap())
        .on_done(move |host| {
            assert_eq!(*host.unwrap(), [1, 2]);
            *seen.lock().unwrap() = Some(thread::current().id());
        })
        .unwrap();
    assert_eq!(*thread.lock().unwrap(), Some(thread::current().id()));
}
