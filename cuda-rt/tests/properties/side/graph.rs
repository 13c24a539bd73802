//! Captures, launches, and closures that panic with a bundle inside.

use std::sync::Arc;

use cuda_rt::driver::{DriverError, ErrorCode};
use cuda_rt::{Error, Live, Stream};

use super::{Side, catch, panic_on_purpose, work_on};
use crate::counts::Kind;
use crate::object::{FORKED, Lane, State, WRITTEN, slices};
use crate::plan::Work;
use crate::work::{Op, apply, apply_read, enqueue, resolve};

/// A graph to be captured.
#[derive(Clone, Copy)]
pub(crate) struct Recipe {
    pub(crate) works: [Work; 2],
    pub(crate) fork: Option<u8>,
    pub(crate) launches: u8,
    pub(crate) between: Option<Work>,
    /// The second work after an update; the update comes after the first launch.
    pub(crate) update: Option<Work>,
    /// The value that the host writes after the first launch.
    pub(crate) host: Option<i8>,
    /// Whether the graph gets another bundle after the first launch.
    pub(crate) replace: bool,
    pub(crate) drops: bool,
    pub(crate) panics: bool,
}

/// The body of a capture. A macro, because its types belong to the capture.
macro_rules! body {
    ($inner:expr, $views:expr, $ops:expr, $fork:expr) => {{
        let (inner, mut views) = ($inner, $views);
        let (mut parts, mut host) = slices!(&mut views);
        for op in $ops.into_iter().flatten() {
            enqueue(inner, op, &mut parts, host.as_deref_mut())?;
        }
        if let (Some(fork), Some((last, others))) = ($fork, parts.split_last_mut()) {
            // The fork reads memory allocated inside the capture, and memory that the captured
            // stream reads too. It writes memory lent to it.
            let copy = inner.init_from(inner.alloc_uninit(last.len())?, last)?;
            let first = others.first_mut().map(|first| &mut **first);
            S::fork(inner, fork, copy, first, last)?;
        }
    }};
}

pub(super) use body;

impl<D: Live> Side<D> {
    pub(crate) fn graph<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, graph: Recipe) {
        let lanes = Arc::clone(&self.lanes);
        let state = self.take(x);
        let bundle = match lanes.bring(state, stream) {
            Ok(bundle) => bundle,
            Err(instead) => return self.put(x, instead),
        };
        let expected = self.objects[x].expected.clone();
        let (lens, host) = (expected.lens(), expected.pinned());
        // The number of the managed memory.
        let managed = expected.managed.as_ref().map(|_| lens.len() - 1);
        let mut ops = graph.works.map(|work| resolve(work, &lens, host));
        let captured = catch(|| {
            stream.capture(bundle, |inner, views| {
                body!(inner, views, ops, graph.fork);
                if graph.panics {
                    panic_on_purpose();
                }
                Ok(())
            })
        });
        let Some(Some(mut captured)) = captured.map(|captured| self.note(captured)) else {
            return;
        };
        let mut expected = expected;
        for launch in 0..graph.launches {
            let Some(launched) = catch(|| captured.launch(stream)) else {
                continue;
            };
            if self.note(launched).is_some() {
                let (mut parts, mut pinned) = expected.slices();
                for op in ops.into_iter().flatten() {
                    apply(op, &mut parts, pinned.as_deref_mut());
                    op.kind_in_graph().into_iter().for_each(|kind| self.did(kind));
                    if managed.is_some_and(|managed| op.uses(managed)) {
                        self.did(Kind::ManagedInGraph);
                    }
                }
                if let (Some(_), Some((last, others))) = (graph.fork, parts.split_last_mut()) {
                    let copy = last.clone();
                    if let Some(first) = others.first_mut() {
                        apply_read(FORKED, first, last);
                        let read = first.clone();
                        apply_read(WRITTEN, &read, first);
                    }
                    apply_read(FORKED, &copy, last);
                }
            }
            let between = graph.between.and_then(|work| resolve(work, &lens, host));
            if let (0, Some(op)) = (launch, between) {
                let result = catch(|| {
                    let mut views = captured.views();
                    let (mut parts, pinned) = slices!(&mut views);
                    enqueue(stream, op, &mut parts, pinned)
                });
                if result.is_some_and(|result| self.note(result).is_some()) {
                    let (mut parts, pinned) = expected.slices();
                    apply(op, &mut parts, pinned);
                }
            }
            if let (0, Some(value)) = (launch, graph.host) {
                let write = |values: &mut [f32]| {
                    let values = values.iter_mut().enumerate();
                    values.for_each(|(i, to)| *to = f32::from(value) - 3.0 * i as f32);
                };
                let seen = catch(|| {
                    captured.host(|views| {
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
                }
            }
            if let (0, Some(work)) = (launch, graph.update) {
                let others = [ops[0], resolve(work, &lens, host)];
                let updated = catch(|| {
                    captured.update(|inner, views| {
                        body!(inner, views, others, graph.fork);
                        Ok(())
                    })
                });
                let Some(updated) = updated else { continue };
                // Calls that differ from the captured ones are not an update, and change nothing.
                // Nor does a copy become one of memory of another kind, as a copy of mapped memory
                // may. CUDA refuses updates of most graphs that have a copy of rows.
                let refusable = |op: &Op| matches!(op, Op::Rows { .. } | Op::Mapped { .. });
                let may_refuse = ops.iter().chain(&others).flatten().any(refusable);
                let is_managed = |op: Option<Op>| managed.is_some_and(|it| op.is_some_and(|op| op.uses(it)));
                let refused = match &updated {
                    Err(Error::NotAnUpdate { .. }) => true,
                    Err(error) => {
                        let code = error.driver().map(DriverError::code);
                        code == Some(ErrorCode::GRAPH_EXEC_UPDATE_FAILURE)
                            && (may_refuse || is_managed(ops[1]) != is_managed(others[1]))
                    }
                    Ok(()) => false,
                };
                if !refused && self.note(updated).is_some() {
                    ops = others;
                    self.tally.updated += 1;
                }
            }
            if launch == 0 && graph.replace && managed.is_none() {
                self.replace(stream, &mut captured, &mut expected, (ops, graph.fork));
            }
        }
        if graph.drops {
            return drop(captured);
        }
        self.objects[x].expected = expected;
        self.put(x, S::keep(stream, captured.into_inner()));
    }

    /// A closure of the pool panics, and its bundle is lost.
    pub(crate) fn panic(&mut self, x: usize, work: Work) {
        let lanes = Arc::clone(&self.lanes);
        let state = self.take(x);
        let mut instead = (State::Gone, None);
        let mut expected = std::mem::take(&mut self.objects[x].expected);
        catch(|| {
            lanes.pool.with(|stream| match lanes.bring(state, stream) {
                Ok(mut bundle) => {
                    let _ = work_on(stream, work, &mut [&mut bundle], &mut [&mut expected]);
                    panic_on_purpose()
                }
                Err(other) => {
                    instead = other;
                    Ok::<(), Error>(())
                }
            })
        });
        self.objects[x].expected = expected;
        self.put(x, instead);
    }
}
