//! Graphs that streams of run time keep: N workers with a graph each.
#![forbid(unsafe_code)]

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{
    AnyDevice, AnyStream, Device, DeviceBuffer, DeviceViewMut, Error, Grid1, Idle, KeptGraph, Live,
    PinnedBuffer, PinnedViewMut, Priority, Result, Stream, StreamTag,
};
use device_kernels::scale;

use super::LEN;
use crate::devices::for_each_device;
use crate::leftovers::nothing_is_left;

cuda_rt::streams! {
    Compute;
}

/// Input, data and result on the device, and output.
type Memory<P = Idle<AnyDevice>> = (
    PinnedBuffer<f32, P>,
    DeviceBuffer<f32, P>,
    DeviceBuffer<f32, P>,
    PinnedBuffer<f32, P>,
);

type Views<'g, S> = (
    PinnedViewMut<'g, f32, S>,
    DeviceViewMut<'g, f32, S>,
    DeviceViewMut<'g, f32, S>,
    PinnedViewMut<'g, f32, S>,
);

fn memory<S: StreamTag<Device: Live>>(s: &Stream<S>) -> Result<Memory<S>> {
    let gpu = s.device();
    Ok((
        s.adopt(gpu.pinned(LEN)?)?,
        s.alloc_zeroed(LEN)?,
        s.alloc_zeroed(LEN)?,
        s.adopt(gpu.pinned(LEN)?)?,
    ))
}

/// Uploads, scales and downloads.
fn work<S: StreamTag>(s: &Stream<S>, views: Views<'_, S>, factor: f32) -> Result<()> {
    let (input, mut data, mut scaled, mut output) = views;
    s.copy_to_device(&input, &mut data)?;
    scale(s, Grid1::covering(LEN), &data, &mut scaled, factor)?;
    s.copy_to_host(&scaled, &mut output)
}

/// A worker: a stream, and a graph that uploads, scales and downloads.
struct Worker {
    stream: AnyStream,
    graph: KeptGraph<Memory>,
    factor: f32,
}

impl Worker {
    fn new(gpu: &AnyDevice, index: usize, factor: f32) -> Result<Self> {
        let stream = gpu.create_stream(&format!("worker {index}"), Priority::Low)?;
        let graph = stream.run(|s| {
            let graph = s.capture(memory(s)?, |s, views| work(s, views, factor))?;
            Ok::<_, Error>(s.keep_graph(graph))
        })?;
        Ok(Self {
            stream,
            graph,
            factor,
        })
    }

    /// One request.
    fn answer(&mut self, request: f32) -> Result<Vec<f32>> {
        self.graph
            .host(|(mut input, ..)| input.as_mut_slice().fill(request))?;
        self.graph.launch()?;
        self.graph.host(|(.., output)| output.as_slice().to_vec())
    }
}

fn workers<D: Live>(gpu: &Device<D>, count: usize) -> Vec<Worker> {
    let gpu = AnyDevice::from(gpu);
    (0..count)
        .map(|index| Worker::new(&gpu, index, index as f32 + 1.0).unwrap())
        .collect()
}

#[test]
fn workers_with_a_graph_each_are_a_vec_and_run_on_threads() {
    for_each_device(|gpu| {
        let mut workers = workers(gpu, 4);
        thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(move || {
                    for round in 1..4 {
                        let answer = worker.answer(round as f32).unwrap();
                        assert_eq!(answer, [round as f32 * worker.factor; LEN]);
                    }
                });
            }
        });
        // All launches in flight at once.
        for worker in &mut workers {
            worker.graph.launch().unwrap();
        }
        for worker in workers {
            let Worker {
                stream,
                graph,
                factor,
            } = worker;
            let kept = graph.into_kept();
            assert_eq!(kept.stream(), &stream);
            let data = stream.run(|s| {
                let (_, _, scaled, _) = s.open(kept).unwrap();
                s.copy_to_vec(&scaled).unwrap()
            });
            assert_eq!(data, [3.0 * factor; LEN]);
        }
        assert_eq!(gpu.races().len(), 0);
    });
}

#[test]
fn a_kept_graph_is_changed_through_its_stream_and_refused_to_another() {
    for_each_device(|gpu| {
        let mut workers = workers(gpu, 2);
        let (first, second) = workers.split_at_mut(1);
        let (first, second) = (&mut first[0], &mut second[0]);
        let error = second
            .stream
            .run(|s| s.with_graph(&mut first.graph, |graph| graph.launch(s)))
            .unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::OtherStream { .. }), "{text}");
        assert!(text.contains("worker 0") && text.contains("worker 1"), "{text}");
        assert_eq!(first.answer(2.0).unwrap(), [2.0; LEN]);
        first
            .stream
            .run(|s| {
                s.with_graph(&mut first.graph, |graph| {
                    graph.update(|s, views| work(s, views, 10.0))?;
                    graph.launch(s)
                })
            })
            .unwrap()
            .unwrap();
        assert_eq!(first.answer(2.0).unwrap(), [20.0; LEN]);
        // The bundle is exchanged for another.
        first
            .stream
            .run(|s| {
                s.with_graph(&mut first.graph, |graph| {
                    drop(graph.replace(memory(s)?, |s, views| work(s, views, 3.0))?);
                    Ok::<_, Error>(())
                })
            })
            .unwrap()
            .unwrap();
        assert_eq!(first.answer(2.0).unwrap(), [6.0; LEN]);
    });
}

/// A launch costs `cuGraphLaunch`, and nothing else; a graph that is lent costs nothing.
#[test]
fn a_launch_of_a_kept_graph_is_one_call() {
    Device::simulated(SimConfig::new(), |gpu| {
        let mut worker = workers(&gpu, 1).remove(0);
        let before = gpu.simulator().unwrap().counters();
        for _ in 0..5 {
            worker.graph.launch().unwrap();
            let Worker { stream, graph, .. } = &mut worker;
            stream.run(|s| s.with_graph(graph, |graph| graph.launch(s)).unwrap().unwrap());
        }
        let after = gpu.simulator().unwrap().counters();
        let made = |call: &Call| (*call, after.calls(*call) - before.calls(*call));
        let made: Vec<_> = Call::ALL
            .iter()
            .map(made)
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(made, [(Call::LaunchGraph, 10)]);
    })
    .unwrap();
}

/// After a panic in the closure the graph is with its stream again, and works.
#[test]
fn attack_panic_while_a_graph_is_lent() {
    for_each_device(|gpu| {
        let mut worker = workers(gpu, 1).remove(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            worker.stream.run(|s| {
                s.with_graph(&mut worker.graph, |graph| -> () {
                    graph.launch(s).unwrap();
                    panic!("on purpose")
                })
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(worker.answer(5.0).unwrap(), [5.0; LEN]);
    });
}

/// A graph that replaces the lent one is of the same stream: it is kept in its place.
#[test]
fn attack_replace_the_graph_that_is_lent() {
    for_each_device(|gpu| {
        let mut workers = workers(gpu, 1);
        let worker = &mut workers[0];
        let old = worker.stream.run(|s| {
            let graph = s.capture(memory(s).unwrap(), |s, views| work(s, views, 7.0));
            let mut other = s.keep_graph(graph.unwrap());
            s.with_graph(&mut worker.graph, |mine| {
                s.with_graph(&mut other, |other| mem::swap(mine, other)).unwrap();
            })
            .unwrap();
            other
        });
        assert_eq!(worker.answer(2.0).unwrap(), [14.0; LEN]);
        worker.graph = old;
        assert_eq!(worker.answer(2.0).unwrap(), [2.0; LEN]);
    });
}

/// Dropped in flight: the graph's memory is freed behind its launches, and nothing is left.
#[test]
fn h25_a_kept_graph_is_dropped_in_flight() {
    nothing_is_left(|gpu| {
        let mut workers = workers(&gpu, 3);
        for worker in &mut workers {
            worker.graph.launch().unwrap();
        }
        let Worker { stream, graph, .. } = workers.remove(1);
        drop(stream);
        drop(graph);
        drop(workers);
        assert_eq!(gpu.races().len(), 0);
    });
}

/// A graph that was captured under a brand of a stream is updated under the stream's static tag. In
/// the update, a fork for this tag is the first stream itself. It was a second stream, of the same
/// type, so that both wrote one buffer.
#[test]
fn attack_fork_in_an_update_under_another_tag() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut kept = compute
            .to_any()
            .run_on(gpu, |s| {
                let memory = (s.alloc_zeroed::<u32>(64)?, s.alloc_zeroed::<u32>(64)?);
                let graph = s.capture(memory, |s, (mut x, mut y)| {
                    let fork = s.fork::<Compute<_>>()?;
                    s.lend(&fork, &mut y, |y| {
                        fork.fill(y, 1)?;
                        s.fill(&mut x, 2)
                    })?
                })?;
                Ok::<_, Error>(s.keep_graph(graph))
            })
            .unwrap()
            .unwrap();
        let updated = compute.with_graph(&mut kept, |graph| {
            graph.update(|s, (mut x, mut y)| {
                let fork = s.fork::<Compute<_>>()?;
                s.lend(&fork, &mut y, |_| {
                    fork.fill(&mut x, 1)?;
                    s.fill(&mut x, 2)
                })?
            })
        });
        // The update has one stream where the capture had two.
        let error = updated.unwrap().unwrap_err();
        assert!(matches!(error, Error::NotAnUpdate { .. }), "{error}");
        kept.launch().unwrap();
        let (x, y) = compute.open(kept.into_kept()).unwrap();
        assert_eq!(compute.copy_to_vec(&x).unwrap(), [2; 64]);
        assert_eq!(compute.copy_to_vec(&y).unwrap(), [1; 64]);
    });
}
