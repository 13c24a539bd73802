//! Uses of a bundle that a run-time stream keeps, where it is kept.

use std::sync::Arc;

use cuda_rt::{Error, Live, Result};

use super::{Side, catch, on_lane};
use crate::counts::Kind;
use crate::object::{KeptBundle, Owned, State, slices};
use crate::plan::{FIRST_WORKER, Through, WORKERS};
use crate::work::{Op, apply, apply_read, enqueue, read, resolve};

/// An error unless another stream keeps the bundle, and a use there is refused.
fn refused<T>(result: Result<T>) {
    match result {
        Err(Error::OtherStream { .. }) => {}
        Err(error) => panic!("refused for another reason: {error}"),
        Ok(_) => panic!("a stream uses what another stream keeps"),
    }
}

impl<D: Live> Side<D> {
    /// Gives `x` to a run-time stream, and uses it through the value that the stream keeps.
    pub(crate) fn kept(&mut self, x: usize, y: usize, keeper: u8, how: Through) {
        let lane = FIRST_WORKER + keeper % WORKERS;
        on_lane!(self.lanes, lane, |stream| self.with(stream, x, |_, _, _| ()));
        let mut kept = match self.take(x) {
            State::On(Owned::Kept(kept)) => kept,
            state => return self.put(x, (state, None)),
        };
        match how {
            Through::View { worker, work } => {
                let expected = &self.objects[x].expected;
                if let Some(op) = resolve(work, &expected.lens(), expected.pinned())
                    && self.through_view(&mut kept, worker, op)
                {
                    let (mut parts, host) = self.objects[x].expected.slices();
                    apply(op, &mut parts, host);
                    self.did(op.kind());
                }
            }
            Through::ByRef { worker, kernel } if x != y => {
                let source = self.objects[x].expected.parts.first().cloned();
                let lanes = Arc::clone(&self.lanes);
                let worker = worker % WORKERS;
                let same = *kept.stream() == lanes.workers[usize::from(worker)];
                on_lane!(self.lanes, FIRST_WORKER + worker, |stream| {
                    self.with(stream, y, |side, bundle, expected| {
                        let (Some(to), Some(values), Some(source)) =
                            (bundle.parts.last_mut(), expected.parts.last_mut(), source)
                        else {
                            return;
                        };
                        let len = source.len().min(values.len());
                        let result = if same {
                            (stream.by_ref(&kept))
                                .and_then(|refs| read(stream, kernel, &refs.parts[0][..len], &mut to[..len]))
                        } else {
                            refused(stream.by_ref(&kept));
                            let result = catch(|| {
                                stream.by_ref_ordered(&kept, |refs| {
                                    read(stream, kernel, &refs.parts[0][..len], &mut to[..len])
                                })
                            });
                            let Some(result) = result else { return };
                            result.flatten()
                        };
                        if side.note(result).is_some() {
                            apply_read(kernel, &source[..len], &mut values[..len]);
                            side.did(if same {
                                Kind::ReadByRef
                            } else {
                                Kind::ReadByRefOrdered
                            });
                        }
                    })
                });
            }
            Through::ByRef { .. } => {}
            Through::Host { value } => {
                let write = |values: &mut [f32]| {
                    let values = values.iter_mut().enumerate();
                    values.for_each(|(i, to)| *to = f32::from(value) - 5.0 * i as f32);
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
                    let wanted = self.objects[x].expected.host.clone();
                    self.compare(seen.as_deref(), wanted.as_deref());
                    self.objects[x]
                        .expected
                        .host
                        .iter_mut()
                        .for_each(|values| write(values));
                    self.did(Kind::KeptHost);
                }
            }
        }
        self.put(x, (State::On(Owned::Kept(kept)), None));
    }

    /// Work on views of a kept bundle. Returns whether a stream accepted it.
    fn through_view(&mut self, kept: &mut KeptBundle, worker: u8, op: Op) -> bool {
        let lanes = Arc::clone(&self.lanes);
        let worker = &lanes.workers[usize::from(worker % WORKERS)];
        let same = worker == kept.stream();
        let mut accepted = false;
        let result = catch(|| {
            worker.run_on(&lanes.gpu, |stream| {
                if same {
                    let mut views = stream.view(kept)?;
                    let (mut parts, host) = slices!(&mut views);
                    return enqueue(stream, op, &mut parts, host).inspect(|()| accepted = true);
                }
                refused(stream.view(kept));
                let result = stream.view_ordered(kept, |mut views| {
                    let (mut parts, host) = slices!(&mut views);
                    enqueue(stream, op, &mut parts, host).inspect(|()| accepted = true)
                });
                result.flatten()
            })
        });
        let Some(result) = result else { return false };
        if self.note(result.flatten()).is_some() {
            self.did(if same { Kind::View } else { Kind::ViewOrdered });
        }
        accepted
    }
}
