//! Sinks with several workers, and workers that keep what they read.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_rt::driver::ErrorCode;
use cuda_rt::pipeline::{Cause, Pipeline, StageKind};
use cuda_rt::simulator::{Call, SimConfig};

use super::*;

#[test]
fn an_unordered_sink_gets_each_item_once_on_several_threads() {
    ends(|| {
        for_each_device(|gpu| {
            let (got, threads) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
            let report = Pipeline::new(gpu, 4)
                .source(CAPACITY, 0..40_u32, |item, pinned: &mut [f32]| {
                    Ok(fill(*item, pinned))
                })
                .upload::<Upload<_>>()
                .download::<Download<_>>()
                .sink_unordered(3, |item, data| {
                    let right = data
                        .iter()
                        .zip(0..)
                        .all(|(value, index)| *value == element(item, index));
                    assert!(right && data.len() == len_of(item));
                    std::thread::yield_now();
                    got.lock().unwrap().push(item);
                    threads
                        .lock()
                        .unwrap()
                        .insert(format!("{:?}", std::thread::current().id()));
                    Ok(())
                })
                .run()
                .unwrap();
            let mut got = got.into_inner().unwrap();
            got.sort_unstable();
            assert_eq!(got, (0..40).collect::<Vec<_>>());
            assert_eq!(report.stages[3].workers, 3);
            assert!(report.to_string().contains(", 3 threads\n"), "{report}");
            assert!((1..=3).contains(&threads.into_inner().unwrap().len()));
        });
    });
}

#[test]
fn other_workers_go_on_when_one_fails() {
    ends(|| {
        for_each_device(|gpu| {
            let got = Mutex::new(BTreeSet::new());
            let begun = AtomicU64::new(0);
            let error = Pipeline::new(gpu, 3)
                .source(4, 0..u32::MAX, |_, _: &mut [u8]| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    Ok(4)
                })
                .upload::<Upload<_>>()
                .download::<Download<_>>()
                .sink_unordered(2, |item, _| {
                    if item == 10 {
                        return Err("a full disk".into());
                    }
                    got.lock().unwrap().insert(item);
                    Ok(())
                })
                .run()
                .unwrap_err();
            assert_eq!((error.item, error.stage.kind), (Some(10), StageKind::Sink));
            // All items that had begun, except the item that failed.
            let got = got.into_inner().unwrap();
            assert_eq!(got.len() as u64, begun.into_inner() - 1);
            assert_eq!(error.finished, got.len() as u64);
        });
    });
}

#[test]
fn h17_a_slot_that_a_worker_holds_is_not_refilled_and_holds_the_source_back() {
    ends(|| {
        for_each_device(|gpu| {
            const BUFFERS: u64 = 2;
            // Two rings in pinned memory, one ring on the device.
            const SLOTS: u64 = 3 * BUFFERS;
            let begun = AtomicU64::new(0);
            let report = Pipeline::new(gpu, BUFFERS as usize)
                .source(CAPACITY, 0..30_u32, |item, pinned: &mut [u32]| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    pinned.fill(*item);
                    Ok(CAPACITY)
                })
                .upload::<Upload<_>>()
                .download::<Download<_>>()
                .sink(|item, data| {
                    if item == 3 {
                        // Held long enough that the source gets as far as it can.
                        let mut seen = 0;
                        while begun.load(Ordering::SeqCst) != seen {
                            seen = begun.load(Ordering::SeqCst);
                            std::thread::sleep(Duration::from_millis(5));
                        }
                        assert!(seen <= 3 + SLOTS, "{seen} items begun while item 3 was held");
                    }
                    assert_eq!(data, [item; CAPACITY]);
                    Ok(())
                })
                .run()
                .unwrap();
            assert_eq!(report.items, 30);
        });
    });
}

/// Sends items through `workers` workers that finish them in order. Returns the finished items, and
/// how the pipeline ended.
fn in_order<D: Live>(
    gpu: &Device<D>,
    workers: usize,
    items: u32,
    work: impl Fn(u32) -> Result<(), Error> + Send + Sync,
    mut finish: impl FnMut(u32) -> Result<(), Error> + Send,
) -> (Result<Report, PipelineError>, Vec<u32>) {
    let mut finished = Vec::new();
    let outcome = Pipeline::new(gpu, 3)
        .source(CAPACITY, 0..items, |item, pinned: &mut [f32]| {
            Ok(fill(*item, pinned))
        })
        .upload::<Upload<_>>()
        .download::<Download<_>>()
        .sink_ordered(
            workers,
            |item, data| {
                assert_eq!(data.len(), len_of(item));
                assert!(
                    data.iter()
                        .zip(0..)
                        .all(|(value, index)| *value == element(item, index))
                );
                work(item)?;
                Ok(item)
            },
            |item| {
                finish(item)?;
                finished.push(item);
                Ok(())
            },
        )
        .run();
    (outcome, finished)
}

/// Makes later items quicker, so that each waits for its turn. The delay sleeps: a thread that
/// yields waits for the processor too, and where all processors are busy each yield takes
/// milliseconds.
fn uneven(item: u32) {
    let micros = (7 - item % 8) * 3;
    if micros > 0 {
        std::thread::sleep(Duration::from_micros(micros.into()));
    }
}

#[test]
fn an_ordered_sink_works_side_by_side_and_finishes_in_order() {
    ends(|| {
        for_each_device(|gpu| {
            for workers in [1, 2, 5] {
                let begun = AtomicU64::new(0);
                let work = |item| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    // The first item ends only after another has begun: they run side by side.
                    until(|| item > 0 || workers == 1 || begun.load(Ordering::SeqCst) >= 2);
                    uneven(item);
                    Ok(())
                };
                let (outcome, finished) = in_order(gpu, workers, 64, work, |_| Ok(()));
                let report = outcome.unwrap();
                assert_eq!(finished, (0..64).collect::<Vec<_>>(), "{workers} workers");
                assert_eq!((report.items, report.stages[3].items), (64, 64), "{report}");
                assert_eq!(report.stages[3].workers, workers);
            }
        });
    });
}

#[test]
fn an_ordered_sink_that_fails_finishes_earlier_items_and_no_later_one() {
    ends(|| {
        for_each_device(|gpu| {
            for (workers, in_work, panics) in (0..16).map(|n| (1 + n / 4, n % 2 == 0, n % 4 < 2)) {
                let strike = |strikes: bool, item: u32| {
                    uneven(item);
                    match (strikes && item == 21, panics) {
                        (true, true) => std::panic::panic_any("in the closure"),
                        (true, false) => Err(Error::SlotEmpty),
                        (false, _) => Ok(()),
                    }
                };
                let (outcome, finished) = in_order(
                    gpu,
                    workers,
                    u32::MAX,
                    |item| strike(in_work, item),
                    |item| strike(!in_work, item),
                );
                let error = outcome.unwrap_err();
                assert_eq!(
                    (error.item, error.stage.kind),
                    (Some(21), StageKind::Sink),
                    "{error}"
                );
                assert_eq!(matches!(error.cause, Cause::Panicked(_)), panics, "{error}");
                assert_eq!(finished, (0..21).collect::<Vec<_>>(), "{workers} workers");
                assert_eq!(error.finished, 21);
            }
        });
    });
}

#[test]
fn the_earlier_of_two_failures_in_an_ordered_sink_is_returned() {
    ends(|| {
        for_each_device(|gpu| {
            let work = item_9_fails_before_item_8();
            let (outcome, finished) = in_order(gpu, 3, 1000, work, |_| Ok(()));
            assert_eq!(outcome.unwrap_err().item, Some(8));
            assert_eq!(finished, (0..8).collect::<Vec<_>>());
        });
    });
}

#[test]
fn an_ordered_sink_stays_in_order_when_calls_fail() {
    ends(|| {
        for (nth, call) in (1..30).flat_map(|nth| [(nth, Call::CopyToHost), (nth, Call::SynchronizeEvent)]) {
            Device::simulated(SimConfig::new().seed(nth), |gpu| {
                gpu.simulator()
                    .unwrap()
                    .fail_nth(call, nth, ErrorCode::OUT_OF_MEMORY);
                let quick = |item| {
                    uneven(item);
                    Ok(())
                };
                let (outcome, finished) = in_order(&gpu, 3, 40, quick, |_| Ok(()));
                assert_eq!(finished, (0..finished.len() as u32).collect::<Vec<_>>());
                match outcome {
                    Ok(report) => assert_eq!((report.items, finished.len()), (40, 40)),
                    Err(error) => assert_eq!(error.finished, finished.len() as u64, "{error}"),
                }
            })
            .unwrap();
        }
    });
}
