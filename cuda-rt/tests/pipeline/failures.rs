//! Failures at every stage: no pipeline hangs, no finished item is lost, and each error names the
//! stage that failed.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_rt::driver::ErrorCode;
use cuda_rt::pipeline::{Cause, Pipeline, StageKind};
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, Error};

use super::*;

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
            // The device works as before.
            whole(gpu, 2, 8, Trouble::NONE).0.unwrap();
        });
    });
}

#[test]
fn the_failure_of_the_first_item_is_returned() {
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
fn a_panic_is_resumed_with_its_payload() {
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
            "source failed on item 0: the stage's closure says that it filled 5 elements, but a buffer has 4"
        );
    });
}

/// Each driver call of a run fails once, in several orders. The run ends, the delivered items are
/// right, and all of them are counted.
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
                    // Item 3 is empty and copies nothing, so the sixth copy belongs to item 6.
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
fn a_failed_wait_is_reported_for_the_awaited_stage() {
    ends(|| {
        Device::simulated(SimConfig::new(), |gpu| {
            // The source waits first, for the first upload.
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

            // Only the sink waits in this run.
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
