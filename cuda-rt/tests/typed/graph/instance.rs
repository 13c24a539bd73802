//! Instantiated graphs whose updates replace a bundle, fail, or run on another thread.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Captured, Device, Error, Live, Result, Stream};

use super::{Compute, Known, View, calls, copied, filled, two_launches, value};
use crate::devices::for_each_device;

#[test]
fn a_bundle_is_replaced_and_comes_back_behind_its_launches() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            pair: (View<'g, D>, View<'g, D>),
        ) -> Result<()> {
            two_launches(stream, pair, [1.0, 1.0])
        }
        let bundle = (filled(&compute, 1.0), filled(&compute, 0.0));
        let mut graph = compute.capture(bundle, body).unwrap();
        let mut spare = (filled(&compute, 10.0), filled(&compute, 0.0));
        for round in 0..6 {
            graph.launch(&compute).unwrap();
            spare = graph.replace(spare, body).unwrap();
            // The pending launch wrote the bundle that came back.
            let expected = if round % 2 == 0 { 2.0 } else { 20.0 };
            let host = copied(gpu, &compute, &spare.1);
            compute.fill(&mut spare.1, -1.0).unwrap();
            assert_eq!(value(&compute, host), expected, "round {round}");
        }
        drop(spare);
        graph.launch(&compute).unwrap();
        let (_, out) = graph.into_inner();
        assert_eq!(value(&compute, copied(gpu, &compute, &out)), 2.0);
    });
}

#[test]
fn a_body_that_fails_or_panics_changes_nothing() {
    for_each_device(|gpu| {
        let mut known = Known::new(gpu);
        let failed = known.graph.update(|stream, pair| {
            two_launches(stream, pair, [9.0, 9.0])?;
            Err(Error::SlotEmpty)
        });
        assert!(matches!(failed, Err(Error::SlotEmpty)), "{failed:?}");
        known.is_as_it_was(gpu);
        let spare = (filled(&known.compute, 5.0), filled(&known.compute, 0.0));
        let graph = &mut known.graph;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = graph.replace(spare, |stream, pair| {
                two_launches(stream, pair, [9.0, 9.0])?;
                std::panic::panic_any("in the body")
            });
        }));
        assert!(panicked.is_err());
        known.works(gpu);
    });
}

#[test]
fn a_graph_moves_between_threads_and_is_updated_there() {
    for_each_device(|gpu| {
        let mut known = Known::new(gpu);
        let known = std::thread::scope(|scope| {
            scope
                .spawn(move || {
                    known
                        .graph
                        .update(|stream, pair| two_launches(stream, pair, [1.0, 1.0]))
                        .unwrap();
                    known
                })
                .join()
                .unwrap()
        });
        let mut known = known;
        known.replays(gpu, 4.0);
    });
}

/// Each call of an update fails, once or for ever. The graph replays the old or the new contents,
/// or refuses to launch.
#[test]
fn every_call_of_an_update_may_fail() {
    for (call, nth) in [
        (Call::SetLaunch, 1),
        (Call::SetLaunch, 2),
        (Call::CreateStream, 1),
        (Call::CreateEvent, 1),
    ] {
        for seed in 0..12 {
            let config = SimConfig::default().seed(seed).order(Order::Lazy);
            Device::simulated(config, |gpu| {
                let mut known = Known::new(&gpu);
                known.graph.launch(&known.compute).unwrap();
                let simulator = gpu.simulator().unwrap().clone();
                simulator.fail_nth(call, nth, ErrorCode::OUT_OF_MEMORY);
                let updated = known
                    .graph
                    .update(|stream, pair| two_launches(stream, pair, [9.0, 9.0]));
                if call == Call::SetLaunch {
                    let error = updated.unwrap_err();
                    assert_eq!(error.driver().unwrap().code(), ErrorCode::OUT_OF_MEMORY);
                    known.works(&gpu);
                } else {
                    updated.unwrap();
                    simulator.clear_faults();
                    known.replays(&gpu, 180.0);
                }
            })
            .unwrap();
        }
    }
}

#[test]
fn an_update_that_fails_half_way_and_cannot_be_taken_back_ends_the_graph() {
    for on_the_way_back in [3, 4] {
        Device::simulated(SimConfig::default(), |gpu| {
            let mut known = Known::new(&gpu);
            let simulator = gpu.simulator().unwrap().clone();
            // The second launch fails, and then one of the two restoring calls. The failed launch
            // is restored too, because it may have changed.
            simulator.fail_nth(Call::SetLaunch, 2, ErrorCode::OUT_OF_MEMORY);
            simulator.fail_nth(Call::SetLaunch, on_the_way_back, ErrorCode::INVALID_VALUE);
            let spare = (filled(&known.compute, 7.0), filled(&known.compute, 0.0));
            let refused = known
                .graph
                .replace(spare, |stream, pair| two_launches(stream, pair, [9.0, 9.0]))
                .unwrap_err();
            for error in [
                refused.error,
                known.graph.launch(&known.compute).unwrap_err(),
                known
                    .graph
                    .update(|stream, pair| two_launches(stream, pair, [2.0, 1.0]))
                    .unwrap_err(),
            ] {
                assert_eq!(
                    error.driver().unwrap().code(),
                    ErrorCode::OUT_OF_MEMORY,
                    "{error}"
                );
            }
            // Both bundles can be had.
            let host = copied(&gpu, &known.compute, &refused.value.0);
            assert_eq!(value(&known.compute, host), 7.0);
            let (input, _) = known.graph.into_inner();
            let host = copied(&gpu, &known.compute, &input);
            assert_eq!(value(&known.compute, host), 2.0);
        })
        .unwrap();
    }
}

/// CUDA says for one error only that the update was not made. After another error, launches might
/// use parts of the bundle that goes back.
#[test]
fn attack_launch_after_an_update_by_capture_that_may_be_half_made() {
    fn body<'g, D: Live>(
        stream: &'g Stream<Captured<'g, Compute<D>>>,
        mut frame: View<'g, D>,
        value: f32,
    ) -> Result<()> {
        stream.fill(&mut frame, value)
    }
    for (code, ends) in [
        (ErrorCode::OUT_OF_MEMORY, true),
        (ErrorCode::GRAPH_EXEC_UPDATE_FAILURE, false),
    ] {
        Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut graph = compute
                .capture(filled(&compute, 0.0), |stream, frame| body(stream, frame, 1.0))
                .unwrap();
            let simulator = gpu.simulator().unwrap().clone();
            simulator.fail_nth(Call::UpdateGraph, 1, code);
            let refused = graph
                .replace(filled(&compute, 7.0), |stream, frame| body(stream, frame, 2.0))
                .unwrap_err();
            assert_eq!(refused.error.driver().unwrap().code(), code);
            drop(refused.value);
            let launched = graph.launch(&compute);
            if ends {
                assert_eq!(launched.unwrap_err().driver().unwrap().code(), code);
                assert_eq!(calls(Some(&simulator), Call::LaunchGraph), 0);
                let update = graph.update(|stream, frame| body(stream, frame, 3.0));
                assert_eq!(update.unwrap_err().driver().unwrap().code(), code);
            } else {
                launched.unwrap();
            }
            let host = copied(&gpu, &compute, &graph.into_inner());
            assert_eq!(value(&compute, host), if ends { 0.0 } else { 1.0 });
            assert!(gpu.races().is_empty());
        })
        .unwrap();
    }
}
