//! Pipelines: shapes, edge cases, failures at every stage, and overlap, in many adversarial orders.
#![forbid(unsafe_code)]

mod devices;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use cuda_rt::driver::ErrorCode;
use cuda_rt::driver::sim::{Call, Model, Order, SimConfig};
use cuda_rt::pipeline::{Cancel, Cause, Pipeline, PipelineError, Report, Ring, StageKind};
use cuda_rt::{Device, Error, Grid1, Handoff, Live};
use device_kernels::{add, scale};

use devices::for_each_device;

cuda_rt::streams! {
    Upload;
    Compute, priority = High;
    Second;
    Download;
}

const CAPACITY: usize = 100;

/// Items differ in length, and some are empty.
fn len_of(item: u32) -> usize {
    [CAPACITY, 1, 37, 0, 64][item as usize % 5]
}

fn element(item: u32, index: usize) -> f32 {
    item as f32 * 1000.0 + index as f32
}

fn fill(item: u32, pinned: &mut [f32]) -> usize {
    let len = len_of(item);
    for (index, value) in pinned[..len].iter_mut().enumerate() {
        *value = element(item, index);
    }
    len
}

/// What the stages of [`whole`] make of an item.
fn expected(item: u32) -> Vec<f32> {
    (0..len_of(item))
        .map(|index| element(item, index) * 6.0)
        .collect()
}

/// Where a closure is to go wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Nowhere,
    Items,
    Source,
    Kernel,
    InPlace,
    Sink,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Error,
    Panic,
}

/// Fails on item 7.
#[derive(Clone, Copy, Debug)]
struct Trouble(At, How);

impl Trouble {
    const NONE: Self = Self(At::Nowhere, How::Error);

    fn strikes(self, at: At, item: u32) -> Result<(), Error> {
        match self {
            Self(place, How::Error) if place == at && item == 7 => Err(Error::SlotEmpty),
            Self(place, How::Panic) if place == at && item == 7 => std::panic::panic_any("in the closure"),
            _ => Ok(()),
        }
    }
}

type Delivered = Vec<(u32, Vec<f32>)>;

/// All kinds of stages of a pipeline through the GPU and back; gives what the sink got, too.
fn whole<D: Live>(
    gpu: &Device<D>,
    buffers: usize,
    items: u32,
    trouble: Trouble,
) -> (Result<Report, PipelineError>, Delivered) {
    let mut delivered = Vec::new();
    let items = (0..items).inspect(|item| trouble.strikes(At::Items, *item).expect("no error, a panic"));
    let outcome = Pipeline::new(gpu, buffers)
        .source(CAPACITY, items, |item, pinned: &mut [f32]| {
            let len = fill(*item, pinned);
            trouble.strikes(At::Source, *item)?;
            Ok(len)
        })
        .upload::<Upload<_>>()
        .stage::<Compute<_>>(|stream, item, input, output| {
            trouble.strikes(At::Kernel, *item)?;
            scale(stream, Grid1::covering(output.len()), input, output, 2.0)
        })
        .in_place::<Second<_>>(|stream, item, data| {
            let mut copy = stream.alloc_zeroed(data.len())?;
            stream.copy(data, &mut copy)?;
            trouble.strikes(At::InPlace, *item)?;
            scale(stream, Grid1::covering(data.len()), &copy, data, 3.0)
        })
        .download::<Download<_>>()
        .sink(|item, data| {
            trouble.strikes(At::Sink, item)?;
            delivered.push((item, data.to_vec()));
            Ok(())
        })
        .run();
    (outcome, delivered)
}

fn assert_prefix(delivered: &Delivered) {
    for ((item, data), index) in delivered.iter().zip(0..) {
        assert_eq!(*item, index, "in order");
        assert_eq!(*data, expected(index), "item {index}");
    }
}

/// Fails if `test` does not end: a deadlock must not hang the suite.
fn ends<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(test()));
    match ended.recv_timeout(Duration::from_secs(120)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("deadlock: no end after two minutes"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

#[test]
fn items_of_any_length_come_through_in_order() {
    ends(|| {
        for_each_device(|gpu| {
            for (buffers, items) in [(1, 12), (2, 12), (3, 12), (7, 3), (2, 0), (1, 1)] {
                let (outcome, delivered) = whole(gpu, buffers, items, Trouble::NONE);
                let report = outcome.unwrap();
                assert_prefix(&delivered);
                assert_eq!(delivered.len(), items as usize);
                assert_eq!(report.items, u64::from(items));
                assert_eq!(report.stages.len(), 6);
                assert!(report.stages.iter().all(|stage| stage.items == u64::from(items)));
                assert!(!report.cancelled && report.modelled == gpu.is_simulated());
            }
        });
    });
}

#[test]
fn nothing_runs_ahead_of_what_waits_for_it_in_a_lazy_order() {
    ends(|| {
        for seed in 0..24 {
            let config = SimConfig::new().seed(seed).order(Order::Lazy);
            let (outcome, delivered) =
                Device::simulated(config, |gpu| whole(&gpu, 2, 15, Trouble::NONE)).unwrap();
            outcome.unwrap();
            assert_prefix(&delivered);
            assert_eq!(delivered.len(), 15);
        }
    });
}

#[test]
fn input_only_output_only_and_on_the_device_alone() {
    ends(|| {
        for_each_device(|gpu| {
            // Input only: sums on the device.
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut sum = compute.alloc_zeroed::<f32>(CAPACITY).unwrap();
            let report = Pipeline::new(gpu, 2)
                .source(CAPACITY, 1..=20_u32, |item, pinned: &mut [f32]| {
                    pinned.fill(*item as f32);
                    Ok(pinned.len())
                })
                .upload::<Upload<_>>()
                .consume::<Compute<_>>(|stream, _, input| {
                    let mut before = stream.alloc_zeroed(CAPACITY)?;
                    stream.copy(&sum, &mut before)?;
                    add(stream, Grid1::covering(CAPACITY), input, &before, &mut sum)
                })
                .run()
                .unwrap();
            assert_eq!(report.items, 20);
            assert_eq!(to_host(gpu, sum), [210.0; CAPACITY]);

            // Output only.
            let mut got = Vec::new();
            Pipeline::new(gpu, 3)
                .generate(
                    CAPACITY,
                    0..20_u32,
                    |stream: &cuda_rt::Stream<Compute<_>>, item, output| {
                        stream.fill(output, *item)?;
                        Ok(len_of(*item))
                    },
                )
                .download::<Download<_>>()
                .sink(|item, data| {
                    got.push((item, data.to_vec()));
                    Ok(())
                })
                .run()
                .unwrap();
            let whole: Vec<_> = (0..20).map(|item| (item, vec![item; len_of(item)])).collect();
            assert_eq!(got, whole);

            // On the device alone, to a smaller type.
            let mut last = compute.alloc_zeroed::<u8>(2).unwrap();
            Pipeline::new(gpu, 2)
                .generate(
                    8,
                    0..30_u8,
                    |stream: &cuda_rt::Stream<Upload<_>>, item, output| {
                        stream.fill(output, u32::from(*item))?;
                        Ok(output.len())
                    },
                )
                .stage_into::<Second<_>, u8>(2, |stream, item, input, output| {
                    assert_eq!(input.len(), 8);
                    stream.fill(output, *item)?;
                    Ok(output.len())
                })
                .consume::<Compute<_>>(|stream, _, input| stream.copy(input, &mut last))
                .run()
                .unwrap();
            assert_eq!(to_host(gpu, last), [29, 29]);
        });
    });
}

fn to_host<D: Live, T: cuda_rt::Element>(
    gpu: &Device<D>,
    buffer: cuda_rt::DeviceBuffer<T, Compute<D>>,
) -> Vec<T> {
    let compute = gpu.stream::<Compute<D>>().unwrap();
    let mut host = compute.adopt(gpu.pinned::<T>(buffer.len()).unwrap()).unwrap();
    compute.copy_to_host(&buffer, &mut host).unwrap();
    compute.release(host).unwrap().synchronize().unwrap().to_vec()
}

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
            assert!((1..=3).contains(&threads.into_inner().unwrap().len()));
        });
    });
}

#[test]
fn a_closure_that_fails_or_panics_stops_the_rest_and_loses_no_finished_item() {
    ends(|| {
        for_each_device(|gpu| {
            let places = [
                (At::Items, StageKind::Source, 0),
                (At::Source, StageKind::Source, 0),
                (At::Kernel, StageKind::Kernel, 2),
                (At::InPlace, StageKind::Kernel, 3),
                (At::Sink, StageKind::Sink, 5),
            ];
            for (at, kind, position) in places {
                for how in [How::Error, How::Panic] {
                    if matches!((at, how), (At::Items, How::Error)) {
                        continue;
                    }
                    let (outcome, delivered) = whole(gpu, 2, 1000, Trouble(at, how));
                    let error = outcome.unwrap_err();
                    assert_eq!(
                        (error.stage.kind, error.stage.position),
                        (kind, position),
                        "{error}"
                    );
                    assert_eq!(error.item, Some(7), "{error}");
                    match how {
                        How::Error => assert!(error.to_string().contains("slot is empty"), "{error}"),
                        How::Panic => {
                            assert!(
                                matches!(&error.cause, Cause::Panicked(panic) if panic.message() == "in the closure")
                            )
                        }
                    }
                    assert_prefix(&delivered);
                    assert_eq!(delivered.len(), 7, "{at:?} {how:?}: items 0 to 6 were finished");
                    assert_eq!(error.finished, 7);
                }
            }
            // The device is as good as new.
            whole(gpu, 2, 8, Trouble::NONE).0.unwrap();
        });
    });
}

#[test]
fn of_several_failures_it_is_that_of_the_first_item() {
    ends(|| {
        for_each_device(|gpu| {
            let failing = AtomicU64::new(0);
            let error = Pipeline::new(gpu, 2)
                .source(4, 0..9_u32, |_, pinned: &mut [u8]| Ok(pinned.len()))
                .upload::<Upload<_>>()
                .stage::<Compute<_>>(|_, item, _, _| {
                    if *item == 3 {
                        failing.store(1, Ordering::SeqCst);
                        return Err(Error::SlotEmpty);
                    }
                    Ok(())
                })
                .download::<Download<_>>()
                .sink(|item, _| {
                    if item == 2 {
                        while failing.load(Ordering::SeqCst) == 0 {
                            std::thread::yield_now();
                        }
                        return Err("a full disk".into());
                    }
                    Ok(())
                })
                .run()
                .unwrap_err();
            assert_eq!(
                (error.item, error.stage.kind, error.finished),
                (Some(2), StageKind::Sink, 2),
                "{error}"
            );
        });
    });
}

#[test]
fn a_reader_ends_the_pipeline_when_there_is_nothing_more() {
    for_each_device(|gpu| {
        let (mut rest, mut got) = (0..5_u32, Vec::new());
        Pipeline::new(gpu, 2)
            .reader(4, |pinned: &mut [u32]| {
                let Some(next) = rest.next() else { return Ok(None) };
                pinned.fill(next);
                Ok(Some(("item", 2)))
            })
            .upload::<Upload<_>>()
            .download::<Download<_>>()
            .sink(|name, data| {
                got.push((name, data.to_vec()));
                Ok(())
            })
            .run()
            .unwrap();
        assert_eq!(
            got,
            (0..5).map(|item| ("item", vec![item; 2])).collect::<Vec<_>>()
        );
    });
}

#[test]
fn a_panic_can_go_on_with_what_it_was_called_with() {
    let error = Device::simulated(SimConfig::new(), |gpu| {
        whole(&gpu, 2, 9, Trouble(At::Kernel, How::Panic)).0
    });
    let Cause::Panicked(panic) = error.unwrap().unwrap_err().cause else {
        panic!("not a panic");
    };
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panic.resume())).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"in the closure"));
}

#[test]
fn a_closure_cannot_claim_more_than_a_buffer_holds() {
    for_each_device(|gpu| {
        let error = Pipeline::new(gpu, 2)
            .source(4, 0..9, |_, pinned: &mut [u8]| Ok(pinned.len() + 1))
            .upload::<Upload<_>>()
            .consume::<Compute<_>>(|_, _, _| Ok(()))
            .run()
            .unwrap_err();
        assert!(
            matches!(error.cause, Cause::TooLong { len: 5, capacity: 4 }),
            "{error}"
        );
        assert_eq!(
            error.to_string(),
            "source failed on item 0: 5 elements were said to be filled, of 4 that a buffer has"
        );
    });
}

#[test]
fn of_several_workers_the_others_go_on_when_one_fails() {
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
            // All that had begun but the one that failed.
            let got = got.into_inner().unwrap();
            assert_eq!(got.len() as u64, begun.into_inner() - 1);
            assert_eq!(error.finished, got.len() as u64);
        });
    });
}

/// Each driver call of a run fails once, in several orders: the run ends, and what was delivered is right, and all of it counted.
#[test]
fn every_driver_call_may_fail() {
    ends(|| {
        let calls = [
            Call::Alloc,
            Call::Free,
            Call::Fill,
            Call::RegisterHost,
            Call::CreateStream,
            Call::CreateEvent,
            Call::RecordEvent,
            Call::WaitEvent,
            Call::QueryEvent,
            Call::SynchronizeEvent,
            Call::ElapsedMs,
            Call::CopyToDevice,
            Call::CopyToHost,
            Call::Copy,
            Call::Launch,
        ];
        let (mut failed, mut partly) = (0, 0);
        for call in calls {
            for (nth, code) in (1..40).step_by(3).zip(
                [ErrorCode::LAUNCH_FAILED, ErrorCode::OUT_OF_MEMORY]
                    .into_iter()
                    .cycle(),
            ) {
                let config = SimConfig::new().seed(nth);
                Device::simulated(config, |gpu| {
                    gpu.simulator().unwrap().fail_nth(call, nth, code);
                    let (outcome, delivered) = whole(&gpu, 2, 12, Trouble::NONE);
                    assert_prefix(&delivered);
                    match outcome {
                        Ok(report) => assert_eq!((report.items, delivered.len()), (12, 12), "{call:?} {nth}"),
                        Err(error) => {
                            failed += 1;
                            partly += usize::from(!delivered.is_empty());
                            assert_eq!(error.finished, delivered.len() as u64, "{call:?} {nth}: {error}");
                            assert!(matches!(error.cause, Cause::Device(_)), "{call:?} {nth}: {error}");
                            assert!(error.item.is_none_or(|item| item < 12), "{error}");
                        }
                    }
                })
                .unwrap();
            }
        }
        assert!(
            failed > 60 && partly > 30,
            "{failed} runs failed, {partly} of them after the first item"
        );
    });
}

#[test]
fn a_failed_call_is_reported_for_its_stage_and_item() {
    ends(|| {
        for seed in 0..24 {
            for (call, kind) in [
                (Call::CopyToDevice, StageKind::Upload),
                (Call::CopyToHost, StageKind::Download),
                (Call::Copy, StageKind::Kernel),
            ] {
                Device::simulated(SimConfig::new().seed(seed), |gpu| {
                    // Item 3 is empty and copies nothing, so the sixth copy is of item 6.
                    gpu.simulator()
                        .unwrap()
                        .fail_nth(call, 6, ErrorCode::OUT_OF_MEMORY);
                    let (outcome, delivered) = whole(&gpu, 2, 50, Trouble::NONE);
                    let error = outcome.unwrap_err();
                    assert_eq!((error.stage.kind, error.item), (kind, Some(6)), "{error}");
                    assert_prefix(&delivered);
                    assert_eq!(delivered.len(), 6);
                })
                .unwrap();
            }
        }
    });
}

#[test]
fn a_failed_wait_is_reported_for_what_was_waited_for() {
    ends(|| {
        Device::simulated(SimConfig::new(), |gpu| {
            // The first to wait is the source, for the first upload.
            gpu.simulator()
                .unwrap()
                .fail_nth(Call::SynchronizeEvent, 1, ErrorCode::OUT_OF_MEMORY);
            let error = Pipeline::new(&gpu, 4)
                .untimed()
                .source(4, 0..6, |_, pinned: &mut [u8]| Ok(pinned.len()))
                .upload::<Upload<_>>()
                .consume::<Compute<_>>(|_, _, _| Ok(()))
                .run()
                .unwrap_err();
            assert_eq!(
                (error.stage.kind, error.item),
                (StageKind::Upload, Some(0)),
                "{error}"
            );

            // Only the sink waits.
            gpu.simulator()
                .unwrap()
                .fail_nth(Call::SynchronizeEvent, 3, ErrorCode::OUT_OF_MEMORY);
            let error = Pipeline::new(&gpu, 2)
                .untimed()
                .generate::<Compute<_>, u8, _>(4, 0..6, |_, _, output| Ok(output.len()))
                .download::<Download<_>>()
                .sink(|_, _| Ok(()))
                .run()
                .unwrap_err();
            assert_eq!(
                (error.stage.kind, error.item, error.finished),
                (StageKind::Download, Some(2), 2),
                "{error}"
            );
        })
        .unwrap();
    });
}

#[test]
fn a_pipeline_that_stays_on_the_device_does_not_run_far_ahead_of_it() {
    ends(|| {
        Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
            let simulator = gpu.simulator().unwrap();
            let mut most = 0;
            let report = Pipeline::new(&gpu, 3)
                .generate::<Compute<_>, u32, _>(8, 0..1000, |stream, item, output| {
                    most = most.max(simulator.counters().operations_pending);
                    stream.fill(output, *item)?;
                    Ok(output.len())
                })
                .consume::<Second<_>>(|_, _, _| Ok(()))
                .run()
                .unwrap();
            assert_eq!(report.items, 1000);
            // Nothing runs before someone waits: up to three items wait in the ring, and four behind it.
            assert!(most < 50, "{most} operations pending");
        })
        .unwrap();
    });
}

#[test]
fn a_pipeline_that_cannot_be_made_ready_says_which_stage_could_not() {
    let config = SimConfig::new().memory_bytes(1 << 16);
    Device::simulated(config, |gpu| {
        let error = Pipeline::new(&gpu, 3)
            .source(1 << 15, 0..3, |_, _: &mut [u8]| Ok(0))
            .upload::<Upload<_>>()
            .stage::<Compute<_>>(|_, _, _, _| Ok(()))
            .consume::<Second<_>>(|_, _, _| Ok(()))
            .run()
            .unwrap_err();
        assert_eq!(
            (error.stage.kind, error.item, error.finished),
            (StageKind::Upload, None, 0)
        );
        assert!(
            error
                .to_string()
                .starts_with("upload `Upload` could not be made ready"),
            "{error}"
        );
    })
    .unwrap();
}

#[test]
fn a_cancelled_pipeline_finishes_what_has_begun() {
    ends(|| {
        for_each_device(|gpu| {
            let cancel = Cancel::new();
            let begun = AtomicU64::new(0);
            let mut got = Vec::new();
            let report = Pipeline::new(gpu, 2)
                .cancel_with(&cancel)
                .source(CAPACITY, 0..u32::MAX, |item, pinned: &mut [f32]| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    Ok(fill(*item, pinned))
                })
                .upload::<Upload<_>>()
                .download::<Download<_>>()
                .sink(|item, _| {
                    got.push(item);
                    if item == 5 {
                        cancel.cancel();
                    }
                    Ok(())
                })
                .run()
                .unwrap();
            assert!(report.cancelled && cancel.is_cancelled());
            assert_eq!(got.len() as u64, begun.into_inner());
            assert_eq!(report.items, got.len() as u64);
            assert!((6..60).contains(&got.len()), "{}", got.len());
        });
    });
}

#[test]
fn h17_a_slot_that_a_worker_holds_is_not_refilled_and_holds_the_source_back() {
    ends(|| {
        for_each_device(|gpu| {
            const BUFFERS: u64 = 2;
            // Two rings of pinned memory, one on the device.
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
                        // For long enough for the source to get as far as it can.
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

#[test]
fn nothing_is_made_for_an_item_once_the_slots_have_gone_round() {
    ends(|| {
        let counters = |items| {
            Device::simulated(SimConfig::new().seed(1), |gpu| {
                whole(&gpu, 3, items, Trouble::NONE).0.unwrap();
                assert_eq!(
                    gpu.pinned_stats().blocks_mapped,
                    2 * 3,
                    "two rings of pinned memory"
                );
                gpu.simulator().unwrap().counters()
            })
            .unwrap()
        };
        let (short, long) = (counters(100), counters(2000));
        // Each slot has at most one event, and each item in flight two for each of four stages; how many are ever out at once
        // is up to the threads.
        let slots = 3 * 4;
        let most = slots + 2 * 4 * (slots + 2) + 4;
        assert!(long.events_created <= most, "{} events", long.events_created);
        assert!(short.events_created <= most);
        // `in_place` of `whole` has a temporary for each item; the rings have two buffers on the device.
        let allocated =
            |counters: &cuda_rt::driver::sim::Counters, items: u64| counters.calls(Call::Alloc) - items;
        let empty = |items: u64| items / 5;
        assert_eq!(allocated(&short, 100 - empty(100)), 2 * 3);
        assert_eq!(allocated(&long, 2000 - empty(2000)), 2 * 3);
    });
}

/// Upload, kernel and download take 0.1 ms each, and calls next to nothing.
fn even<T>(body: impl for<'id> FnOnce(Device<cuda_rt::Scoped<'id>>) -> T) -> T {
    let model = Model {
        to_device_gb_per_s: 4096.0 / 100_000.0,
        to_host_gb_per_s: 4096.0 / 100_000.0,
        copy_latency_ns: 0,
        kernel_floor_ns: 0,
        ..Model::default()
    };
    let config = SimConfig::new()
        .model(model)
        .kernel_ns_per_thread("device_kernels::elementwise::scale", 100_000.0 / 1024.0);
    Device::simulated(config, body).unwrap()
}

/// `items` even items, and a sink that takes `sink_us` for each.
fn run_even(buffers: usize, items: u32, sink_us: impl Fn(u32) -> u64 + Sync) -> Report {
    even(|gpu| {
        let simulator = gpu.simulator().unwrap();
        Pipeline::new(&gpu, buffers)
            .source(1024, 0..items, |_, pinned: &mut [f32]| Ok(pinned.len()))
            .upload::<Upload<_>>()
            .stage::<Compute<_>>(|stream, _, input, output| {
                scale(stream, Grid1::covering(output.len()), input, output, 2.0)
            })
            .download::<Download<_>>()
            .sink(|item, _| {
                simulator.spend_host_ns(sink_us(item) * 1000);
                Ok(())
            })
            .run()
            .unwrap()
    })
}

#[test]
fn two_buffers_keep_all_engines_busy_and_one_makes_them_take_turns() {
    ends(|| {
        for buffers in 2..=4 {
            let report = run_even(buffers, 200, |_| 0);
            let ms = report.wall.as_secs_f64() * 1e3;
            assert!((20.2..20.2 * 1.03).contains(&ms), "{buffers} buffers: {report}");
            assert!(report.efficiency() > 0.96 && report.overlap() > 0.64, "{report}");
            assert_eq!(report.more_buffers(), None, "{report}");
        }
        let report = run_even(1, 200, |_| 0);
        assert!(report.wall > Duration::from_millis(39), "{report}");
        let more = report.more_buffers().unwrap();
        assert!(
            more.buffers == 2 && (0.45..0.52).contains(&more.saved),
            "{report}"
        );
        assert!(
            report.to_string().contains("2 buffers would save about"),
            "{report}"
        );
    });
}

#[test]
fn a_sink_that_is_slow_at_times_is_hidden_by_as_many_buffers_as_the_report_says() {
    ends(|| {
        // 80 µs on average, of 100 that the other stages take.
        let sink = |item| if item % 10 == 9 { 800 } else { 0 };
        let few = run_even(2, 400, sink);
        let more = few.more_buffers().expect("more buffers would help");
        assert!(few.bottleneck().unwrap().stage.kind != StageKind::Sink, "{few}");
        let enough = run_even(more.buffers, 400, sink);
        let saved = 1.0 - enough.wall.as_secs_f64() / few.wall.as_secs_f64();
        assert!(
            (saved - more.saved).abs() < 0.03,
            "said {}, was {saved}\n{few}\n{enough}",
            more.saved
        );
        assert!(enough.efficiency() > 0.95, "{enough}");
        assert_eq!(enough.more_buffers(), None, "{enough}");
    });
}

#[test]
fn a_sink_that_is_too_slow_is_the_bottleneck_and_buffers_do_not_help() {
    ends(|| {
        let report = run_even(2, 300, |_| 250);
        assert_eq!(
            report.bottleneck().unwrap().stage.kind,
            StageKind::Sink,
            "{report}"
        );
        assert_eq!(report.more_buffers(), None, "{report}");
        assert!(report.stages[4].utilisation() > 0.97, "{report}");
        assert!(report.to_string().contains("sink bounds it"), "{report}");
    });
}

#[test]
fn an_untimed_pipeline_records_no_times() {
    Device::simulated(SimConfig::new(), |gpu| {
        let report = Pipeline::new(&gpu, 2)
            .untimed()
            .source(4, 0..5, |_, pinned: &mut [u8]| Ok(pinned.len()))
            .upload::<Upload<_>>()
            .consume::<Compute<_>>(|_, _, _| Ok(()))
            .run()
            .unwrap();
        assert_eq!(report.items, 5);
        assert_eq!(gpu.simulator().unwrap().counters().calls(Call::ElapsedMs), 0);
        assert!(report.to_string().ends_with("nothing was timed"), "{report}");
    })
    .unwrap();
}

#[test]
fn a_ring_gives_a_slot_out_once_and_takes_it_back_pending() {
    for_each_device(|gpu| {
        let (upload, compute) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Compute<_>>().unwrap(),
        );
        let slots = (0..2).map(|_| Handoff::ready(gpu.pinned::<u32>(64).unwrap()));
        let ring = Ring::new(gpu, slots.collect());
        let mut device = upload.alloc_zeroed::<u32>(64).unwrap();
        for round in 0..20_u32 {
            let mut turn = ring.take();
            let other = ring.try_take();
            assert!(other.is_some() && ring.try_take().is_none(), "two slots");
            drop(other);
            // The host waits for the last round's copy from this memory; the copy of this round is not waited for.
            turn.host(|memory| memory.fill(round)).unwrap();
            std::thread::scope(|scope| {
                let copy =
                    scope.spawn(|| turn.on(&upload, |memory| upload.copy_to_device(memory, &mut device)));
                copy.join().unwrap().unwrap().unwrap();
            });
            drop(turn);
        }
        let device = compute.acquire(upload.release(device).unwrap()).unwrap();
        assert_eq!(to_host(gpu, device), [19; 64]);
    });
}

#[test]
fn h22_a_leaked_turn_is_a_slot_that_never_comes_home() {
    for_each_device(|gpu| {
        let ring = Ring::new(gpu, vec![Handoff::ready(gpu.pinned::<u8>(8).unwrap())]);
        assert_eq!(ring.slots(), 1);
        std::mem::forget(ring.take());
        assert!(ring.try_take().is_none());
    });
}

#[test]
fn a_turn_outlives_its_ring() {
    for_each_device(|gpu| {
        let ring = Ring::new(gpu, vec![Handoff::ready(gpu.pinned::<u8>(8).unwrap())]);
        let mut turn = ring.take();
        drop(ring);
        turn.host(|memory| memory.fill(1)).unwrap();
    });
}

#[test]
#[should_panic(expected = "at least one buffer")]
fn no_buffers_are_too_few() {
    let _ = Device::simulated(SimConfig::new(), |gpu| drop(Pipeline::new(&gpu, 0)));
}
