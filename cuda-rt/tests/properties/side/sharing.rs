//! One bundle that many streams read, for a while or for ever.

use std::sync::Arc;

use cuda_rt::{Constant, Live, Stream};

use super::Side;
use crate::object::{Lane, State};
use crate::plan::{Keep, Kernel, Settle};
use crate::work::{apply_read, read};

impl<D: Live> Side<D> {
    pub(crate) fn share<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize) {
        let lanes = Arc::clone(&self.lanes);
        let instead = match self.take(x) {
            state @ State::Shared(..) => (state, None),
            state => match lanes.bring(state, stream) {
                Ok(bundle) => match stream.share(bundle) {
                    Ok(shared) => (State::Shared(shared, Vec::new()), None),
                    Err(error) => (State::Gone, Some(error)),
                },
                Err(instead) => instead,
            },
        };
        self.put(x, instead);
    }

    /// Reads a part of the shared `x` into a part of `y`.
    pub(crate) fn read<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        y: usize,
        kernel: Kernel,
        keep: Keep,
    ) {
        self.share(stream, x);
        if x == y || !matches!(self.objects[x].state, State::Shared(..)) {
            return;
        }
        let State::Shared(shared, mut leases) = self.take(x) else {
            unreachable!("seen above")
        };
        let source = self.objects[x].expected.parts.first().cloned();
        match stream.lease(&shared) {
            Err(error) => self.refused(&error),
            Ok(lease) => {
                self.with(stream, y, |side, bundle, expected| {
                    let (Some(to), Some(values), Some(source)) =
                        (bundle.parts.last_mut(), expected.parts.last_mut(), source)
                    else {
                        return;
                    };
                    let len = source.len().min(values.len());
                    let result = read(stream, kernel, &lease.view().parts[0][..len], &mut to[..len]);
                    if side.note(result).is_some() {
                        apply_read(kernel, &source[..len], &mut values[..len]);
                    }
                });
                match keep {
                    Keep::End => drop(lease),
                    Keep::Leak => std::mem::forget(lease),
                    Keep::InTransit => leases.extend(
                        stream
                            .try_release(lease)
                            .map_err(|refused| self.refused(&refused.error))
                            .ok(),
                    ),
                }
            }
        }
        self.put(x, (State::Shared(shared, leases), None));
    }

    pub(crate) fn constant(&mut self, x: usize) {
        if self.settle(x, Settle::Synchronize)
            && let State::Idle(idle) = self.take(x)
        {
            let expected = self.objects[x].expected.clone();
            self.constants.push((Constant::new(idle), expected));
        }
    }

    pub(crate) fn read_constant<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, y: u8, kernel: Kernel) {
        let Some(index) = usize::from(y).checked_rem(self.constants.len()) else {
            return;
        };
        let (constant, source) = self.constants[index].clone();
        self.with(stream, x, |side, bundle, expected| {
            let (Some(to), Some(values), Some(source)) = (
                bundle.parts.first_mut(),
                expected.parts.first_mut(),
                source.parts.first(),
            ) else {
                return;
            };
            let len = source.len().min(values.len());
            let result = (stream.adopt(constant))
                .and_then(|constant| read(stream, kernel, &constant.view().parts[0][..len], &mut to[..len]));
            if side.note(result).is_some() {
                apply_read(kernel, &source[..len], &mut values[..len]);
            }
        });
    }
}
