//! The items that a pipeline carries, and the ways in which it ends.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_rt::pipeline::{Cancel, Pipeline};
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Grid1};
use device_kernels::add;

use super::*;

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
fn a_pipeline_in_lazy_order_delivers_every_item() {
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
fn a_pipeline_may_lack_its_input_or_its_output_or_both() {
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

            // Only on the device, to a smaller type.
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
            // Nothing runs before a wait: up to three items wait in the ring, and four behind it.
            assert!(most < 50, "{most} operations pending");
        })
        .unwrap();
    });
}

#[test]
fn a_cancelled_pipeline_finishes_the_items_that_have_begun() {
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
fn no_event_or_memory_is_made_for_an_item_once_each_slot_was_used() {
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
        // Each slot has at most one event. Each item in flight has two events for each of four
        // stages; the threads decide how many exist at once.
        let slots = 3 * 4;
        let most = slots + 2 * 4 * (slots + 2) + 4;
        assert!(long.events_created <= most, "{} events", long.events_created);
        assert!(short.events_created <= most);
        // The rings have two buffers on the device for each slot. `in_place` of `whole` has a
        // temporary for each item, and all of them are one block.
        for counters in [&short, &long] {
            assert_eq!(counters.calls(Call::Alloc), 2 * 3 + 1);
        }
        assert!(
            long.frees() - short.frees() >= 1900 * 4 / 5,
            "the temporaries of the items"
        );
    });
}

#[test]
#[should_panic(expected = "at least one buffer")]
fn a_pipeline_without_buffers_panics() {
    let _ = Device::simulated(SimConfig::new(), |gpu| drop(Pipeline::new(&gpu, 0)));
}
