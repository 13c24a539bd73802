//! Graphs that change between launches: other scalars, other bundles, and what is refused.
#![forbid(unsafe_code)]

mod devices;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig, Simulator};
use cuda_rt::{
    Captured, Device, DeviceBuffer, DeviceViewMut, Error, Graph, Grid1, Idle, Live, PinnedBuffer, Result,
    Stream,
};
use device_kernels::{saxpy, scale};
use devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Left;
    Right;
}

const LEN: usize = 300;

type View<'g, D> = DeviceViewMut<'g, f32, Captured<'g, Compute<D>>>;
type Pair<D> = (DeviceBuffer<f32, Idle<D>>, DeviceBuffer<f32, Idle<D>>);

fn filled<D: Live>(stream: &Stream<Compute<D>>, value: f32) -> DeviceBuffer<f32, Compute<D>> {
    stream
        .init_filled(stream.alloc_uninit(LEN).unwrap(), value)
        .unwrap()
}

/// A copy of what the memory holds at this place in the stream's work, in flight.
fn copied<D: Live>(
    gpu: &Device<D>,
    stream: &Stream<Compute<D>>,
    view: &cuda_rt::DeviceSlice<f32, Compute<D>>,
) -> PinnedBuffer<f32, Compute<D>> {
    let mut host = stream.adopt(gpu.pinned(view.len()).unwrap()).unwrap();
    stream.copy_to_host(view, &mut host).unwrap();
    host
}

/// The one value that all elements have.
#[track_caller]
fn value<D: Live>(stream: &Stream<Compute<D>>, host: PinnedBuffer<f32, Compute<D>>) -> f32 {
    let host = stream.release(host).unwrap().synchronize().unwrap();
    let first = host[0];
    assert!(host.iter().all(|value| *value == first), "{host:?}");
    first
}

/// `b = first * a; b = second * b + b`, by two launches.
fn two_launches<'g, D: Live>(
    stream: &Stream<Captured<'g, Compute<D>>>,
    (a, mut b): (View<'g, D>, View<'g, D>),
    [first, second]: [f32; 2],
) -> Result<()> {
    scale(stream, Grid1::covering(a.len()), &a, &mut b, first)?;
    let mut sum = stream.alloc_zeroed::<f32>(b.len())?;
    scale(stream, Grid1::covering(b.len()), &b, &mut sum, 1.0)?;
    saxpy(stream, Grid1::covering(b.len()), second, &sum, &mut b)
}

fn calls(simulator: Option<&Simulator>, call: Call) -> u64 {
    simulator.map_or(0, |simulator| simulator.counters().calls(call))
}

#[test]
fn scalars_change_and_launches_that_are_pending_run_as_they_were() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (filled(&compute, 2.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(bundle, |stream, pair| two_launches(stream, pair, [1.0, 0.0]))
            .unwrap();
        let ends = calls(gpu.simulator(), Call::EndCapture);
        let mut hosts = Vec::new();
        for step in 0..20u8 {
            let step = f32::from(step);
            graph
                .update(|stream, pair| two_launches(stream, pair, [step, 3.0]))
                .unwrap();
            graph.launch(&compute).unwrap();
            hosts.push(copied(gpu, &compute, &graph.views().1));
        }
        for (step, host) in hosts.into_iter().enumerate() {
            assert_eq!(value(&compute, host), 2.0 * step as f32 * 4.0);
        }
        if gpu.simulator().is_some() {
            assert_eq!(
                calls(gpu.simulator(), Call::EndCapture),
                ends,
                "no capture, no instantiation"
            );
            assert_eq!(calls(gpu.simulator(), Call::UpdateGraph), 0);
            assert_eq!(
                calls(gpu.simulator(), Call::SetLaunch),
                2 + 19,
                "both launches change at first, and then only one does"
            );
        }
    });
}

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
            // The launch that is pending wrote the bundle that came back.
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
fn copies_and_fills_change_through_another_capture() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (a, mut b): (View<'g, D>, View<'g, D>),
            (fill, factor): (f32, f32),
        ) -> Result<()> {
            let half = a.len() / 2;
            let fork = stream.fork::<Left<D>>()?;
            let other = stream.fork::<Right<D>>()?;
            let (low, high) = b.split_at_mut(half);
            stream.lend(&fork, low, |low| fork.fill(low, fill))??;
            stream.lend(&other, high, |high| other.fill(high, fill))??;
            saxpy(stream, Grid1::covering(b.len()), factor, &a, &mut b)
        }
        let bundle = (filled(&compute, 1.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(bundle, |stream, pair| body(stream, pair, (5.0, 1.0)))
            .unwrap();
        graph.launch(&compute).unwrap();
        let first = copied(gpu, &compute, &graph.views().1);
        graph
            .update(|stream, pair| body(stream, pair, (7.0, 2.0)))
            .unwrap();
        graph.launch(&compute).unwrap();
        let second = copied(gpu, &compute, &graph.views().1);
        // A launch alone, after an update by capture.
        graph
            .update(|stream, pair| body(stream, pair, (7.0, 3.0)))
            .unwrap();
        graph.launch(&compute).unwrap();
        let third = copied(gpu, &compute, &graph.views().1);
        let spare = (filled(&compute, 100.0), filled(&compute, 0.0));
        let old = graph
            .replace(spare, |stream, pair| body(stream, pair, (7.0, 3.0)))
            .unwrap();
        drop(old);
        graph.launch(&compute).unwrap();
        let fourth = copied(gpu, &compute, &graph.views().1);
        let got = [first, second, third, fourth].map(|host| value(&compute, host));
        assert_eq!(got, [6.0, 9.0, 10.0, 307.0]);
        if gpu.simulator().is_some() {
            assert_eq!(calls(gpu.simulator(), Call::UpdateGraph), 2);
            assert_eq!(calls(gpu.simulator(), Call::SetLaunch), 1);
        }
    });
}

#[test]
fn a_grid_alone_changes() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (filled(&compute, 2.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(bundle, |stream, (a, mut b)| {
                scale(stream, Grid1::covering(100), &a, &mut b, 1.0)
            })
            .unwrap();
        graph
            .update(|stream, (a, mut b)| scale(stream, Grid1::covering(200), &a, &mut b, 1.0))
            .unwrap();
        let set = calls(gpu.simulator(), Call::SetLaunch);
        graph
            .update(|stream, (a, mut b)| scale(stream, Grid1::covering(200).block(64), &a, &mut b, 1.0))
            .unwrap();
        if gpu.simulator().is_some() {
            assert_eq!(calls(gpu.simulator(), Call::SetLaunch), set + 1, "other blocks");
        }
        graph.launch(&compute).unwrap();
        let (_, b) = graph.into_inner();
        assert_eq!(value(&compute, copied(gpu, &compute, &b[..200])), 2.0);
        assert_eq!(value(&compute, copied(gpu, &compute, &b[200..])), 0.0);
    });
}

/// A graph of `two_launches` whose result is `8 * value`, and whether it still is that.
struct Known<D: Live> {
    compute: Stream<Compute<D>>,
    graph: Graph<Pair<D>, Compute<D>>,
}

impl<D: Live> Known<D> {
    fn new(gpu: &Device<D>) -> Self {
        let compute = gpu.stream::<Compute<D>>().unwrap();
        let bundle = (filled(&compute, 2.0), filled(&compute, 0.0));
        let graph = compute
            .capture(bundle, |stream, pair| two_launches(stream, pair, [2.0, 1.0]))
            .unwrap();
        Self { compute, graph }
    }

    #[track_caller]
    fn is_as_it_was(&mut self, gpu: &Device<D>) {
        self.replays(gpu, 8.0);
    }

    #[track_caller]
    fn replays(&mut self, gpu: &Device<D>, expected: f32) {
        self.graph.launch(&self.compute).unwrap();
        let host = copied(gpu, &self.compute, &self.graph.views().1);
        assert_eq!(value(&self.compute, host), expected);
    }

    /// And it can be updated.
    #[track_caller]
    fn works(mut self, gpu: &Device<D>) {
        self.is_as_it_was(gpu);
        self.graph
            .update(|stream, pair| two_launches(stream, pair, [3.0, 2.0]))
            .unwrap();
        self.replays(gpu, 18.0);
    }
}

#[test]
fn other_work_is_no_update() {
    for_each_device(|gpu| {
        let mut known = Known::new(gpu);
        let graph = &mut known.graph;
        let refused = |result: Result<()>, operation: usize, why: &str| match result {
            Err(Error::NotAnUpdate {
                operation: found,
                why: text,
                ..
            }) => assert_eq!((found, &*text), (operation, why)),
            other => panic!("{other:?}, not {why}"),
        };
        refused(
            graph.update(|stream, (a, mut b)| saxpy(stream, Grid1::covering(LEN), 1.0, &a, &mut b)),
            1,
            "was a launch of `device_kernels::elementwise::scale` when it was captured, \
             and is a launch of `device_kernels::elementwise::saxpy`",
        );
        refused(
            graph.update(|stream, (a, mut b)| scale(stream, Grid1::covering(LEN), &a, &mut b, 9.0)),
            2,
            "was an allocation of 1200 bytes when it was captured, and is nothing",
        );
        refused(
            graph.update(|stream, (a, b)| {
                two_launches(stream, (a, b), [9.0, 9.0])?;
                stream.alloc_zeroed::<f32>(1).map(drop)
            }),
            6,
            "was nothing when it was captured, and is an allocation of 4 bytes",
        );
        // A launch of no thread is none.
        refused(
            graph.update(|stream, (a, mut b)| scale(stream, Grid1::covering(0), &a, &mut b, 9.0)),
            1,
            "was a launch of `device_kernels::elementwise::scale` when it was captured, and is nothing",
        );
        // On another stream.
        refused(
            graph.update(|stream, (_, mut b)| {
                let fork = stream.fork::<Left<_>>()?;
                stream.lend(&fork, &mut b, |b| {
                    let data = fork.alloc_zeroed::<f32>(LEN)?;
                    scale(&fork, Grid1::covering(LEN), &data, b, 9.0)
                })??;
                Ok(())
            }),
            1,
            "was a launch of `device_kernels::elementwise::scale` when it was captured, \
             and is the end of a stream's part",
        );
        known.works(gpu);
    });
}

#[test]
fn what_a_graph_that_allocates_copies_or_fills_does_not_change() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (filled(&compute, 1.0), filled(&compute, 0.0));
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (a, mut b): (View<'g, D>, View<'g, D>),
            factor: f32,
        ) -> Result<()> {
            let mut inside = stream.alloc_zeroed::<f32>(a.len())?;
            stream.copy(&a, &mut inside)?;
            scale(stream, Grid1::covering(a.len()), &inside, &mut b, factor)
        }
        let mut graph = compute
            .capture(bundle, |stream, pair| body(stream, pair, 2.0))
            .unwrap();
        let spare = (filled(&compute, 50.0), filled(&compute, 0.0));
        let refused = graph
            .replace(spare, |stream, pair| body(stream, pair, 2.0))
            .unwrap_err();
        let text = refused.error.to_string();
        assert_eq!(
            text,
            "Graph::replace: operation 3 of the body is a copy of 1200 bytes that may have changed, and in a graph that \
             allocates only launches can; capture another graph for other work"
        );
        // Both are as they were.
        assert_eq!(value(&compute, copied(gpu, &compute, &refused.value.0)), 50.0);
        graph.update(|stream, pair| body(stream, pair, 4.0)).unwrap();
        graph.launch(&compute).unwrap();
        assert_eq!(value(&compute, copied(gpu, &compute, &graph.views().1)), 4.0);
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
fn a_bundle_of_another_shape_is_the_bodys_affair() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let make = |count: usize, len: usize, value: f32| -> Vec<DeviceBuffer<f32, Compute<_>>> {
            (0..count)
                .map(|_| {
                    compute
                        .init_filled(compute.alloc_uninit(len).unwrap(), value)
                        .unwrap()
                })
                .collect()
        };
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            buffers: Vec<View<'g, D>>,
        ) -> Result<()> {
            let ones = stream.alloc_uninit::<f32>(0)?;
            drop(ones);
            buffers.into_iter().try_for_each(|mut buffer| {
                let len = buffer.len();
                let (low, high) = buffer.split_at_mut(len / 2);
                saxpy(stream, Grid1::covering(len / 2), 1.0, low, high)
            })
        }
        let mut graph = compute.capture(make(2, 64, 1.0), body).unwrap();
        // Shorter: other grids, and that is fine.
        let old = graph.replace(make(2, 8, 3.0), body).unwrap();
        assert_eq!(old.len(), 2);
        // More of them, or of no length: other work.
        for (count, len) in [(3, 64), (1, 64), (2, 0)] {
            let refused = graph.replace(make(count, len, 1.0), body).unwrap_err();
            assert!(
                matches!(refused.error, Error::NotAnUpdate { .. }),
                "{:?}",
                refused.error
            );
            assert_eq!(refused.value.len(), count);
        }
        graph.launch(&compute).unwrap();
        let buffers = graph.into_inner();
        for buffer in &buffers {
            assert_eq!(value(&compute, copied(gpu, &compute, &buffer[..4])), 3.0);
            assert_eq!(value(&compute, copied(gpu, &compute, &buffer[4..])), 6.0);
        }
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

/// Each call of an update fails, once and for good; the graph replays one or the other, or refuses.
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
            // The second launch, and then one of the two on the way back: the one that failed is
            // put back as well, for it may have changed.
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

/// Of one error only does CUDA say that the update was not made. After another, launches might use
/// some of the bundle that goes back.
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

/// CUDA would call it an unjoined fork; ours is joined at the end of the capture, whatever it holds
/// by then.
#[test]
fn a_fork_that_goes_on_after_its_join_is_joined_again() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (filled(&compute, 1.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(bundle, |stream, (a, mut b)| {
                let fork = stream.fork::<Left<_>>()?;
                stream.lend(&fork, &mut b, |b| fork.fill(b, 5.0))??;
                let mut more = fork.alloc_zeroed::<f32>(LEN)?;
                fork.fill(&mut more, 1.0)?;
                scale(stream, Grid1::covering(LEN), &a, &mut b, 4.0)?;
                // Dropped by the fork, after all that was joined.
                drop(more);
                Ok(())
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        assert_eq!(value(&compute, copied(gpu, &compute, &graph.views().1)), 4.0);
    });
}

#[test]
fn the_outer_stream_works_while_a_capture_is_made() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let outside = filled(&compute, 3.0);
        let mut graph = compute
            .capture(filled(&compute, 0.0), |stream, mut view| {
                stream.fill(&mut view, 1.0)?;
                assert_eq!(value(&compute, copied(gpu, &compute, &outside)), 3.0);
                let elsewhere = std::thread::scope(|scope| {
                    let thread = scope.spawn(|| {
                        let left = gpu.stream::<Left<_>>()?;
                        let buffer = left.init_filled(left.alloc_uninit(LEN)?, 4.0_f32)?;
                        let mut host = left.adopt(gpu.pinned(LEN)?)?;
                        left.copy_to_host(&buffer, &mut host)?;
                        left.release(host)?.synchronize()
                    });
                    thread.join().unwrap()
                })?;
                assert_eq!(elsewhere[LEN - 1], 4.0);
                compute.synchronize()?;
                stream.fill(&mut view, 2.0)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        assert_eq!(value(&compute, copied(gpu, &compute, &graph.views())), 2.0);
    });
}

#[test]
fn what_is_passed_by_value_is_the_graphs() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (filled(&compute, 2.0), filled(&compute, 0.0));
        let mut graph = {
            let factors = Vec::from([3.0_f32]);
            compute.capture(bundle, |stream, (a, mut b)| {
                let factor = Box::new(factors[0]);
                scale(stream, Grid1::covering(LEN), &a, &mut b, *factor)
            })
        }
        .unwrap();
        let _reused: Vec<Box<f32>> = (0..64).map(|_| Box::new(100.0)).collect();
        graph.launch(&compute).unwrap();
        assert_eq!(value(&compute, copied(gpu, &compute, &graph.views().1)), 6.0);
    });
}
