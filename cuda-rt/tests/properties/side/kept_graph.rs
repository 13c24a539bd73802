//! Graphs that a run-time stream keeps, and functions of the host that panic.

use std::panic::resume_unwind;
use std::sync::Arc;

use cuda_rt::{Error, Live, Stream};

use super::{Side, catch};
use crate::counts::Kind;
use crate::object::{Lane, Owned, State, slices};
use crate::plan::{WORKERS, Work};
use crate::work::{apply, enqueue, resolve};

/// A graph to be captured and kept.
#[derive(Clone, Copy)]
pub(crate) struct KeptRecipe {
    pub(crate) works: [Work; 2],
    pub(crate) launches: u8,
    pub(crate) between: Option<Work>,
    /// The value that the host writes after the first launch.
    pub(crate) host: Option<i8>,
    pub(crate) drops: bool,
}

impl<D: Live> Side<D> {
    /// A run-time stream captures `x`, keeps the graph, and launches it where it is kept.
    pub(crate) fn kept_graph(&mut self, x: usize, keeper: u8, graph: KeptRecipe) {
        let lanes = Arc::clone(&self.lanes);
        let worker = &lanes.workers[usize::from(keeper % WORKERS)];
        let state = self.take(x);
        let mut expected = self.objects[x].expected.clone();
        let (lens, host) = (expected.lens(), expected.pinned());
        let ops = graph.works.map(|work| resolve(work, &lens, host));
        let made = worker.run_on(&lanes.gpu, |stream| {
            let bundle = lanes.bring(state, stream)?;
            let captured = stream.capture(bundle, |inner, mut views| {
                let (mut parts, mut host) = slices!(&mut views);
                let mut ops = ops.into_iter().flatten();
                ops.try_for_each(|op| enqueue(inner, op, &mut parts, host.as_deref_mut()))
            });
            match captured {
                Ok(captured) => Ok(stream.keep_graph(captured)),
                Err(error) => Err((State::Gone, Some(error))),
            }
        });
        let mut kept = match made.expect("a stream of this device") {
            Ok(kept) => kept,
            Err(instead) => return self.put(x, instead),
        };
        assert_eq!(kept.stream(), worker);
        for launch in 0..graph.launches {
            let Some(launched) = catch(|| kept.launch()) else {
                continue;
            };
            if self.note(launched).is_some() {
                let (mut parts, mut pinned) = expected.slices();
                for op in ops.into_iter().flatten() {
                    apply(op, &mut parts, pinned.as_deref_mut());
                    op.kind_in_graph().into_iter().for_each(|kind| self.did(kind));
                }
                self.did(Kind::KeptGraph);
            }
            let between = graph.between.and_then(|work| resolve(work, &lens, host));
            if let (0, Some(op)) = (launch, between) {
                let result = catch(|| {
                    worker.run_on(&lanes.gpu, |stream| {
                        stream.with_graph(&mut kept, |graph| {
                            let mut views = graph.views();
                            let (mut parts, pinned) = slices!(&mut views);
                            enqueue(stream, op, &mut parts, pinned)
                        })
                    })
                });
                let Some(result) = result else { continue };
                if self.note(result.flatten().flatten()).is_some() {
                    let (mut parts, pinned) = expected.slices();
                    apply(op, &mut parts, pinned);
                    self.did(Kind::LentGraph);
                }
            }
            if let (0, Some(value)) = (launch, graph.host) {
                let write = |values: &mut [f32]| {
                    let values = values.iter_mut().enumerate();
                    values.for_each(|(i, to)| *to = f32::from(value) - 7.0 * i as f32);
                };
                let seen = catch(|| {
                    kept.host(|views| {
                        views.host.map(|mut host| {
                            let seen = host.as_slice().to_vec();
                            write(host.as_mut_slice());
                            seen
                        })
                    })
                });
                if let Some(seen) = seen.and_then(|seen| self.note(seen)) {
                    self.compare(seen.as_deref(), expected.host.as_deref());
                    expected.host.iter_mut().for_each(|values| write(values));
                    self.did(Kind::KeptGraphHost);
                }
            }
        }
        if graph.drops {
            return drop(kept);
        }
        self.objects[x].expected = expected;
        self.put(x, (State::On(Owned::Kept(kept.into_kept())), None));
        self.did(Kind::KeptFromGraph);
    }

    /// A function of the host writes half of the pinned memory of `x`, and panics. Whoever sees the
    /// memory afterwards would see what the model does not have, so every wait has to fail.
    pub(crate) fn host_panic<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize) {
        // A GPU would be lost for the plans after this one, too.
        if self.lanes.gpu.simulator().is_none() {
            return;
        }
        self.with(stream, x, |side, bundle, _| {
            let Some(host) = &mut bundle.host else { return };
            let half = host.len() / 2;
            let result: Result<(), Error> = stream.host_fn(&mut host[..half], |values| {
                values.fill(f32::MAX);
                // As a string, whose text is part of each later error. Without the panic hook.
                resume_unwind(Box::new("injected"))
            });
            if side.note(result).is_some() {
                side.tally.host_panics += 1;
            }
        });
    }
}
