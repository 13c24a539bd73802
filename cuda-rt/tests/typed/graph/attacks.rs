//! Attacks on graphs that change: bodies that lie, memory of the wrong temporary, and leaks and
//! drops while old launches are pending.
#![forbid(unsafe_code)]

use std::cell::Cell;

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Captured, Device, DeviceBuffer, DeviceViewMut, Error, Grid1, Live, Result, Stream};
use device_kernels::{saxpy, scale};

use crate::leftovers::nothing_is_left;

cuda_rt::streams! {
    Compute;
    Left;
    Right;
}

const LEN: usize = 128;

type View<'g, D> = DeviceViewMut<'g, f32, Captured<'g, Compute<D>>>;

fn filled<D: Live>(stream: &Stream<Compute<D>>, value: f32) -> DeviceBuffer<f32, Compute<D>> {
    stream
        .init_filled(stream.alloc_uninit(LEN).unwrap(), value)
        .unwrap()
}

#[track_caller]
fn holds<D: Live>(gpu: &Device<D>, buffer: DeviceBuffer<f32, Compute<D>>, expected: f32) {
    let compute = gpu.stream::<Compute<D>>().unwrap();
    let mut host = compute.adopt(gpu.pinned(LEN).unwrap()).unwrap();
    compute.copy_to_host(&buffer, &mut host).unwrap();
    assert_eq!(
        *compute.release(host).unwrap().synchronize().unwrap(),
        [expected; LEN]
    );
}

/// Two temporaries of equal size end in the other order. If the update changed only the launch, the
/// launch would use memory that the graph has freed.
#[test]
fn attack_use_a_temporary_after_its_end_through_an_update() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            mut out: View<'g, D>,
            other: bool,
        ) -> Result<()> {
            let one = stream.init_filled(stream.alloc_uninit::<f32>(LEN)?, 1.0)?;
            let two = stream.init_filled(stream.alloc_uninit::<f32>(LEN)?, 2.0)?;
            let (ends, stays) = if other { (two, one) } else { (one, two) };
            drop(ends);
            let reused = stream.init_filled(stream.alloc_uninit::<f32>(LEN)?, 9.0)?;
            scale(stream, Grid1::covering(LEN), &stays, &mut out, 1.0)?;
            drop((stays, reused));
            Ok(())
        }
        let mut graph = compute
            .capture(filled(&compute, 0.0), |stream, out| body(stream, out, false))
            .unwrap();
        let refused = graph.update(|stream, out| body(stream, out, true));
        assert!(matches!(refused, Err(Error::NotAnUpdate { .. })), "{refused:?}");
        graph.launch(&compute).unwrap();
        holds(&gpu, graph.into_inner(), 2.0);
    });
}

/// Two waits swap places: the graph has the same nodes but other edges.
#[test]
fn attack_change_the_edges_and_not_the_nodes() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (mut a, mut b): (View<'g, D>, View<'g, D>),
            early: bool,
        ) -> Result<()> {
            let (left, right) = (stream.fork::<Left<D>>()?, stream.fork::<Right<D>>()?);
            let one = left.init_filled(left.alloc_uninit::<f32>(LEN)?, 1.0)?;
            let first = left.release(one)?;
            let two = right.init_filled(right.alloc_uninit::<f32>(LEN)?, 2.0)?;
            let second = right.release(two)?;
            let (x, y) = if early { (first, second) } else { (second, first) };
            let x = stream.acquire(x)?;
            scale(stream, Grid1::covering(LEN), &x, &mut a, 1.0)?;
            let y = stream.acquire(y)?;
            scale(stream, Grid1::covering(LEN), &y, &mut b, 1.0)?;
            // They end in one order, so that only the waits differ.
            let (one, two) = if early { (x, y) } else { (y, x) };
            drop(one);
            drop(two);
            Ok(())
        }
        let pair = (filled(&compute, 0.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(pair, |stream, pair| body(stream, pair, true))
            .unwrap();
        let refused = graph.update(|stream, pair| body(stream, pair, false));
        assert!(matches!(refused, Err(Error::NotAnUpdate { .. })), "{refused:?}");
        // With the streams of another capture site, the work is still the same after the failure.
        graph.update(|stream, pair| body(stream, pair, true)).unwrap();
        graph.launch(&compute).unwrap();
        let (a, b) = graph.into_inner();
        holds(&gpu, a, 1.0);
        holds(&gpu, b, 2.0);
    });
}

/// Two launches that ran side by side on two streams become two launches on one stream. The second
/// reads the result of the first, but the graph has no edge between them.
#[test]
fn attack_change_the_stream_of_a_launch() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (source, mut out, mut lent): (View<'g, D>, View<'g, D>, View<'g, D>),
            other: bool,
        ) -> Result<()> {
            let left = stream.fork::<Left<D>>()?;
            let grid = || Grid1::covering(LEN / 4);
            stream.lend(&left, &mut lent, |lent| {
                let (first, rest) = lent.split_at_mut(LEN / 4);
                let (second, rest) = rest.split_at_mut(LEN / 4);
                let third = &mut rest[..LEN / 4];
                if other {
                    scale(&left, grid(), first, second, 2.0)?;
                    scale(&left, grid(), second, third, 2.0)
                } else {
                    scale(stream, Grid1::covering(LEN), &source, &mut out, 2.0)?;
                    scale(&left, grid(), first, second, 2.0)
                }
            })?
        }
        let bundle = [1.0, 0.0, 1.0].map(|value| filled(&compute, value));
        let mut graph = compute
            .capture(bundle, |stream, [a, b, c]| body(stream, (a, b, c), false))
            .unwrap();
        let refused = graph.update(|stream, [a, b, c]| body(stream, (a, b, c), true));
        assert!(matches!(refused, Err(Error::NotAnUpdate { .. })), "{refused:?}");
        graph.launch(&compute).unwrap();
        let [_, out, _] = graph.into_inner();
        holds(&gpu, out, 2.0);
    });
}

/// The body does one thing in its dry run and another when it is captured.
#[test]
fn attack_bodies_that_change_their_mind() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let pair = || (filled(&compute, 3.0), filled(&compute, 0.0));
        fn work<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (a, mut b): (View<'g, D>, View<'g, D>),
            value: f32,
        ) -> Result<()> {
            stream.fill(&mut b, value)?;
            saxpy(stream, Grid1::covering(LEN), 1.0, &a, &mut b)
        }
        let mut graph = compute
            .capture(pair(), |stream, pair| work(stream, pair, 1.0))
            .unwrap();
        // More work, less work, no work, an error, a panic; each only at the second call.
        for way in 0..5 {
            let times = Cell::new(0);
            let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                graph
                    .replace(pair(), |stream, (mut a, b)| {
                        times.set(times.get() + 1);
                        if times.get() == 1 {
                            return work(stream, (a, b), 2.0);
                        }
                        match way {
                            0 => {
                                stream.fill(&mut a, 8.0)?;
                                work(stream, (a, b), 2.0)
                            }
                            1 => stream.fill(&mut a, 8.0),
                            2 => Ok(()),
                            3 => Err(Error::SlotEmpty),
                            _ => std::panic::panic_any("on the second call"),
                        }
                    })
                    .map(drop)
            }));
            match (way, attempt) {
                (0..3, Ok(Err(refused))) => {
                    assert!(matches!(refused.error, Error::NotAnUpdate { .. }));
                    holds(&gpu, refused.value.0, 3.0);
                }
                (3, Ok(Err(refused))) => assert!(matches!(refused.error, Error::SlotEmpty)),
                (4, Err(_)) => {}
                (way, _) => panic!("way {way} was taken for an update"),
            }
            assert_eq!(times.get(), 2);
            graph.launch(&compute).unwrap();
        }
        graph.update(|stream, pair| work(stream, pair, 2.0)).unwrap();
        graph.launch(&compute).unwrap();
        holds(&gpu, graph.into_inner().1, 5.0);
    });
}

/// Bundles come back and are dropped, and the graph is dropped, while launches of all its versions
/// are pending.
#[test]
fn attack_drop_bundles_and_graph_with_old_launches_pending() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (mut a, mut b): (View<'g, D>, View<'g, D>),
            fill: f32,
        ) -> Result<()> {
            stream.fill(&mut a, fill)?;
            scale(stream, Grid1::covering(LEN), &a, &mut b, 2.0)
        }
        let pair = || (filled(&compute, 0.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(pair(), |stream, pair| body(stream, pair, 0.0))
            .unwrap();
        let mut kept = Vec::new();
        for round in 1..9u8 {
            graph.launch(&compute).unwrap();
            let fill = f32::from(round / 3);
            let old = graph
                .replace(pair(), |stream, pair| body(stream, pair, fill))
                .unwrap();
            match round {
                1 => kept.push(old),
                _ => drop(old),
            }
            // If the old bundle's memory was freed early, this buffer gets it.
            drop(filled(&compute, -1.0));
        }
        graph.launch(&compute).unwrap();
        drop(graph);
        let next = pair();
        holds(&gpu, kept.remove(0).1, 0.0);
        holds(&gpu, next.0, 0.0);
    });
}

/// A forgotten graph leaks what it holds, and nothing that it returned.
#[test]
fn attack_forget_a_graph_after_an_update() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut graph = compute
            .capture(filled(&compute, 1.0), |stream, mut view| {
                stream.fill(&mut view, 1.0)
            })
            .unwrap();
        let old = graph
            .replace(filled(&compute, 2.0), |stream, mut view| {
                stream.fill(&mut view, 5.0)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        std::mem::forget(graph);
        holds(&gpu, old, 1.0);
        compute.synchronize().unwrap();
        assert_eq!(gpu.simulator().unwrap().counters().frees(), 1);
    })
    .unwrap();
}

/// Threads inside a body: their calls are captured in some order. At worst another order is other
/// work.
#[test]
fn attack_threads_inside_a_body() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (mut a, mut b): (View<'g, D>, View<'g, D>),
            value: f32,
        ) -> Result<()> {
            let fork = stream.fork::<Left<D>>()?;
            let (here, there) = stream.lend(&fork, &mut b, |b| {
                std::thread::scope(|scope| {
                    let there = scope.spawn(|| fork.fill(b, value));
                    (stream.fill(&mut a, value), there.join().unwrap())
                })
            })?;
            here.and(there)
        }
        let pair = (filled(&compute, 0.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(pair, |stream, pair| body(stream, pair, 0.0))
            .unwrap();
        let mut last = 0.0;
        for value in 1..12u8 {
            let value = f32::from(value);
            match graph.update(|stream, pair| body(stream, pair, value)) {
                Ok(()) => last = value,
                Err(Error::NotAnUpdate { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        graph.launch(&compute).unwrap();
        let (a, b) = graph.into_inner();
        holds(&gpu, a, last);
        holds(&gpu, b, last);
    });
}

/// A graph is dropped, or taken apart, while its launches are pending.
#[test]
fn attack_drop_a_graph_that_is_running() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let capture = || {
            let buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
            let mut graph = compute
                .capture(buffer, |stream, mut view| {
                    let mut temporary = stream.alloc_zeroed::<u32>(LEN)?;
                    stream.fill(&mut temporary, 3)?;
                    stream.copy(&temporary, &mut view)
                })
                .unwrap();
            graph.launch(&compute).unwrap();
            graph.launch(&compute).unwrap();
            graph
        };
        drop(capture());
        let buffer = capture().into_inner();
        let mut next = compute.alloc_zeroed::<u32>(LEN).unwrap();
        compute.fill(&mut next, 9).unwrap();
        let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [3; LEN]);
    });
}
