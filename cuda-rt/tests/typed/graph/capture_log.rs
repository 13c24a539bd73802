//! Updates by a second run of the body: allowed differences, and refused ones.
#![forbid(unsafe_code)]

use cuda_rt::simulator::Call;
use cuda_rt::{Captured, DeviceBuffer, Error, Grid1, Live, Result, Stream};
use device_kernels::{saxpy, scale};

use super::{Compute, Known, LEN, View, calls, copied, filled, two_launches, value};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Left;
    Right;
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
        // Only a launch changes, after an update by capture.
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

#[test]
fn an_update_with_other_work_is_refused() {
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
        // A launch without threads enqueues nothing.
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
fn a_graph_that_allocates_updates_its_launches_only() {
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
        // Both are unchanged.
        assert_eq!(value(&compute, copied(gpu, &compute, &refused.value.0)), 50.0);
        graph.update(|stream, pair| body(stream, pair, 4.0)).unwrap();
        graph.launch(&compute).unwrap();
        assert_eq!(value(&compute, copied(gpu, &compute, &graph.views().1)), 4.0);
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
        // Shorter buffers: other grids, which is allowed.
        let old = graph.replace(make(2, 8, 3.0), body).unwrap();
        assert_eq!(old.len(), 2);
        // More buffers, or empty ones: other work.
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
