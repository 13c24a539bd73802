//! Sources with several workers: items go on in order, and a worker that fails stops the rest.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_rt::driver::ErrorCode;
use cuda_rt::pipeline::{BoxError, Cancel, Cause, Pipeline, StageKind};
use cuda_rt::simulator::{Call, SimConfig};

use super::*;

/// Makes later items quicker, so that they are filled before the earlier ones.
fn uneven(item: u32) {
    std::thread::sleep(Duration::from_micros(u64::from(7 - item % 8) * 20));
}

/// Reads items with `workers` workers. `next` may fail on an item, and so may `fill_it`. Returns
/// how the pipeline ended, and the items that the sink got.
fn read_by<D: Live>(
    gpu: &Device<D>,
    (workers, buffers): (usize, usize),
    mut next: impl FnMut(u32) -> Result<Option<u32>, BoxError> + Send,
    fill_it: impl Fn(u32) -> Result<(), Error> + Send + Sync,
) -> (Result<Report, PipelineError>, Vec<u32>) {
    let (mut items, mut delivered) = (0.., Vec::new());
    let outcome = Pipeline::new(gpu, buffers)
        .reader_ordered(
            workers,
            CAPACITY,
            || next(items.next().unwrap_or(u32::MAX)),
            |item, pinned: &mut [f32]| {
                let len = fill(*item, pinned);
                fill_it(*item)?;
                // Another worker that writes the same slot would show here.
                assert!(
                    pinned[..len]
                        .iter()
                        .zip(0..)
                        .all(|(value, index)| *value == element(*item, index))
                );
                Ok(len)
            },
        )
        .upload::<Upload<_>>()
        .download::<Download<_>>()
        .sink(|item, data| {
            assert_eq!(data.len(), len_of(item));
            assert!(
                data.iter()
                    .zip(0..)
                    .all(|(value, index)| *value == element(item, index))
            );
            delivered.push(item);
            Ok(())
        })
        .run();
    (outcome, delivered)
}

fn up_to(items: u32) -> impl FnMut(u32) -> Result<Option<u32>, BoxError> + Send {
    move |item| Ok((item < items).then_some(item))
}

#[test]
fn several_workers_fill_side_by_side_and_their_items_go_on_in_order() {
    ends(|| {
        for_each_device(|gpu| {
            for (workers, buffers) in [(1, 1), (1, 2), (2, 2), (3, 1), (4, 4), (5, 3)] {
                let begun = AtomicU64::new(0);
                let threads = Mutex::new(BTreeSet::new());
                let fill_it = |item| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    // The first item ends only after another has begun: they run side by side.
                    let together = workers > 1 && buffers > 1;
                    until(|| item > 0 || !together || begun.load(Ordering::SeqCst) >= 2);
                    uneven(item);
                    threads
                        .lock()
                        .unwrap()
                        .insert(format!("{:?}", std::thread::current().id()));
                    Ok(())
                };
                let (outcome, delivered) = read_by(gpu, (workers, buffers), up_to(64), fill_it);
                let report = outcome.unwrap();
                let setting = format!("{workers} workers, {buffers} buffers");
                assert_eq!(delivered, (0..64).collect::<Vec<_>>(), "{setting}");
                assert_eq!((report.items, report.stages[0].items), (64, 64), "{setting}");
                assert_eq!(report.stages[0].workers, workers);
                assert!((1..=workers).contains(&threads.into_inner().unwrap().len()));
            }
        });
    });
}

#[test]
fn few_items_and_no_items_pass_many_workers() {
    ends(|| {
        for_each_device(|gpu| {
            for items in 0..4 {
                let (outcome, delivered) = read_by(gpu, (6, 2), up_to(items), |_| Ok(()));
                assert_eq!(outcome.unwrap().items, u64::from(items));
                assert_eq!(delivered, (0..items).collect::<Vec<_>>());
            }
        });
    });
}

#[test]
fn a_worker_that_fails_stops_the_rest_and_loses_no_earlier_item() {
    ends(|| {
        for_each_device(|gpu| {
            for (workers, in_next, panics) in (0..16).map(|n| (1 + n / 4, n % 2 == 0, n % 4 < 2)) {
                let strike = |strikes: bool, item: u32| match (strikes && item == 21, panics) {
                    (true, true) => std::panic::panic_any("in the closure"),
                    (true, false) => Err(Error::SlotEmpty),
                    (false, _) => Ok(()),
                };
                let last = AtomicU64::new(0);
                let (outcome, delivered) = read_by(
                    gpu,
                    (workers, 3),
                    |item| {
                        last.fetch_max(u64::from(item), Ordering::SeqCst);
                        strike(in_next, item)?;
                        Ok(Some(item))
                    },
                    |item| {
                        uneven(item);
                        strike(!in_next, item)
                    },
                );
                let error = outcome.unwrap_err();
                let setting = format!("{workers} workers, in next: {in_next}: {error}");
                assert_eq!(
                    (error.item, error.stage.kind),
                    (Some(21), StageKind::Source),
                    "{setting}"
                );
                assert_eq!(matches!(error.cause, Cause::Panicked(_)), panics, "{setting}");
                assert_eq!(delivered, (0..21).collect::<Vec<_>>(), "{setting}");
                assert_eq!(error.finished, 21);
                // Each worker may have begun one item before the failure was known, and one slot
                // may have gone round.
                let last = last.into_inner();
                assert!(
                    last <= 21 + 2 * workers as u64,
                    "{setting}: item {last} was taken"
                );
            }
        });
    });
}

#[test]
fn the_earlier_of_two_failed_workers_is_returned() {
    ends(|| {
        for_each_device(|gpu| {
            let fill_it = item_9_fails_before_item_8();
            let (outcome, delivered) = read_by(gpu, (3, 3), |item| Ok(Some(item)), fill_it);
            assert_eq!(outcome.unwrap_err().item, Some(8));
            assert_eq!(delivered, (0..8).collect::<Vec<_>>());
        });
    });
}

/// An item whose destructor takes long.
struct Slow(u32);

impl Drop for Slow {
    fn drop(&mut self) {
        if self.0 == 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn workers_that_wait_for_a_slot_end_when_the_item_before_fails() {
    ends(|| {
        for_each_device(|gpu| {
            for panics in [false, true] {
                let later = AtomicU64::new(0);
                let error = Pipeline::new(gpu, 3)
                    .source_ordered(3, 4, (0..).map(Slow), |item, _: &mut [u8]| {
                        if item.0 > 0 {
                            later.fetch_add(1, Ordering::SeqCst);
                            return Ok(4);
                        }
                        // Both later items are filled, and wait for this one with all other slots.
                        until(|| later.load(Ordering::SeqCst) >= 2);
                        if panics {
                            std::panic::panic_any("in the closure");
                        }
                        Err("a bad sector".into())
                    })
                    .upload::<Upload<_>>()
                    .consume::<Compute<_>>(|_, _, _| Ok(()))
                    .run()
                    .unwrap_err();
                assert_eq!((error.item, error.finished), (Some(0), 0), "{error}");
                assert_eq!(later.into_inner(), 2, "no further item was taken");
            }
        });
    });
}

#[test]
fn a_failure_further_on_ends_all_workers() {
    ends(|| {
        for_each_device(|gpu| {
            for workers in 1..4 {
                let begun = AtomicU64::new(0);
                let error = Pipeline::new(gpu, 2)
                    .source_ordered(workers, 4, 0..u32::MAX, |_, _: &mut [u8]| {
                        begun.fetch_add(1, Ordering::SeqCst);
                        Ok(4)
                    })
                    .upload::<Upload<_>>()
                    .stage::<Compute<_>>(|_, item, _, _| match item {
                        5 => Err(Error::SlotEmpty),
                        _ => Ok(()),
                    })
                    .download::<Download<_>>()
                    .sink_unordered(workers, |_, _| Ok(()))
                    .run()
                    .unwrap_err();
                assert_eq!((error.item, error.finished), (Some(5), 5), "{error}");
                assert!(begun.into_inner() < 5 + 4 * 2 + 2 * workers as u64);
            }
        });
    });
}

#[test]
fn cancelled_workers_finish_what_they_have_begun() {
    ends(|| {
        for_each_device(|gpu| {
            for workers in 1..5 {
                let (cancel, begun) = (Cancel::new(), AtomicU64::new(0));
                let mut delivered = Vec::new();
                let report = Pipeline::new(gpu, 3)
                    .cancel_with(&cancel)
                    .source_ordered(workers, 4, 0.., |item: &mut u32, pinned: &mut [u32]| {
                        begun.fetch_add(1, Ordering::SeqCst);
                        uneven(*item);
                        pinned.fill(*item);
                        Ok(4)
                    })
                    .upload::<Upload<_>>()
                    .download::<Download<_>>()
                    .sink(|item, data| {
                        assert_eq!(data, [item; 4]);
                        delivered.push(item);
                        if item == 9 {
                            cancel.cancel();
                        }
                        Ok(())
                    })
                    .run()
                    .unwrap();
                assert!(report.cancelled);
                assert_eq!(delivered, (0..report.items as u32).collect::<Vec<_>>());
                assert_eq!(report.items, begun.into_inner(), "nothing that had begun is lost");
            }
        });
    });
}

#[test]
fn h19_a_slot_of_a_slow_write_is_not_refilled_and_holds_the_workers_back() {
    ends(|| {
        for_each_device(|gpu| {
            const BUFFERS: u64 = 3;
            // Two rings in pinned memory, one ring on the device.
            const SLOTS: u64 = 3 * BUFFERS;
            let (begun, written) = (AtomicU64::new(0), AtomicU64::new(0));
            let report = Pipeline::new(gpu, BUFFERS as usize)
                .source_ordered(3, CAPACITY, 0..40_u32, |item, pinned: &mut [u32]| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    pinned.fill(*item);
                    Ok(CAPACITY)
                })
                .upload::<Upload<_>>()
                .download::<Download<_>>()
                .sink_unordered(3, |item, data| {
                    if item % 8 == 3 {
                        // Held long enough that the other threads get as far as they can.
                        let mut seen = 0;
                        while begun.load(Ordering::SeqCst) != seen {
                            seen = begun.load(Ordering::SeqCst);
                            std::thread::sleep(Duration::from_millis(5));
                        }
                    }
                    // The other workers go on meanwhile, with one slot less.
                    let begun = begun.load(Ordering::SeqCst);
                    let in_flight = begun - written.load(Ordering::SeqCst).min(begun);
                    assert!(in_flight <= SLOTS, "{in_flight} items in {SLOTS} slots");
                    assert_eq!(data, [item; CAPACITY]);
                    written.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                })
                .run()
                .unwrap();
            assert_eq!(report.items, 40);
        });
    });
}

#[test]
fn items_stay_in_order_when_calls_fail() {
    ends(|| {
        for (nth, call) in (1..30).flat_map(|nth| [(nth, Call::CopyToDevice), (nth, Call::SynchronizeEvent)])
        {
            Device::simulated(SimConfig::new().seed(nth), |gpu| {
                gpu.simulator()
                    .unwrap()
                    .fail_nth(call, nth, ErrorCode::OUT_OF_MEMORY);
                let fill_it = |item| {
                    uneven(item);
                    Ok(())
                };
                let (outcome, delivered) = read_by(&gpu, (3, 3), up_to(40), fill_it);
                assert_eq!(delivered, (0..delivered.len() as u32).collect::<Vec<_>>());
                match outcome {
                    Ok(report) => assert_eq!((report.items, delivered.len()), (40, 40)),
                    Err(error) => assert!(error.finished <= delivered.len() as u64, "{error}"),
                }
            })
            .unwrap();
        }
    });
}

#[test]
fn a_length_beyond_the_slot_is_an_error_of_the_item() {
    ends(|| {
        for_each_device(|gpu| {
            let error = Pipeline::new(gpu, 2)
                .source_ordered(2, 4, 0..9_u32, |item, _: &mut [u8]| {
                    Ok(if *item == 6 { 5 } else { 4 })
                })
                .upload::<Upload<_>>()
                .consume::<Compute<_>>(|_, _, _| Ok(()))
                .run()
                .unwrap_err();
            assert_eq!((error.item, error.stage.kind), (Some(6), StageKind::Source));
            assert!(
                matches!(error.cause, Cause::TooLong { len: 5, capacity: 4 }),
                "{error}"
            );
        });
    });
}

#[test]
#[should_panic(expected = "a source needs at least one worker")]
fn a_source_without_workers_is_refused() {
    Device::simulated(SimConfig::new(), |gpu| {
        let _ = Pipeline::new(&gpu, 1).source_ordered(0, 1, 0..1, |_, _: &mut [u8]| Ok(1));
    })
    .unwrap();
}

#[test]
fn a_search_that_has_ended_failed_or_panicked_is_not_repeated() {
    ends(|| {
        for_each_device(|gpu| {
            for (how, workers) in (0..12).map(|n| (n % 3, 1 + n / 3)) {
                let calls = AtomicU64::new(0);
                let next = |item| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    match (item, how) {
                        (5, 0) => Ok(None),
                        (5, 1) => Err("no more".into()),
                        (5, _) => std::panic::panic_any("in the closure"),
                        _ => Ok(Some(item)),
                    }
                };
                let (outcome, delivered) = read_by(gpu, (workers, 4), next, |_| Ok(()));
                assert_eq!(outcome.is_ok(), how == 0);
                assert_eq!(delivered, [0, 1, 2, 3, 4]);
                assert_eq!(calls.into_inner(), 6, "{workers} workers");
            }
        });
    });
}
