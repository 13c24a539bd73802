//! One bundle that many streams read, for a while or for ever.

use std::sync::Arc;

use cuda_rt::{Constant, Live, Shared, Stream};

use super::{Side, catch, one_part};
use crate::counts::Kind;
use crate::object::{Lane, State, Unified};
use crate::plan::{Keep, Kernel, Settle};
use crate::work::{apply_read, read};

impl<D: Live> Side<D> {
    pub(crate) fn share<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, lazily: bool) {
        let lanes = Arc::clone(&self.lanes);
        let instead = match self.take(x) {
            state @ State::Shared(..) => (state, None),
            state => match lanes.bring(state, stream) {
                Ok(bundle) => {
                    let shared = if lazily {
                        stream.share_lazily(bundle)
                    } else {
                        stream.share(bundle)
                    };
                    match shared {
                        Ok(shared) => (State::Shared(shared, Vec::new()), None),
                        Err(error) => (State::Gone, Some(error)),
                    }
                }
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
        self.share(stream, x, false);
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
                    let result =
                        catch(|| read(stream, kernel, &lease.view().parts[0][..len], &mut to[..len]));
                    if result.is_some_and(|result| side.note(result).is_some()) {
                        apply_read(kernel, &source[..len], &mut values[..len]);
                    }
                });
                match keep {
                    Keep::End => _ = catch(|| drop(lease)),
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

    /// The host reads the pinned memory of the shared `x`, and the stream copies it.
    pub(crate) fn read_both<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        lazily: bool,
        host_first: bool,
    ) {
        // Idle memory needs no stream to be shared.
        let state = match self.take(x) {
            State::Idle(idle) if lazily => State::Shared(Shared::new(idle), Vec::new()),
            state => state,
        };
        self.put(x, (state, None));
        self.share(stream, x, lazily);
        let State::Shared(shared, leases) = self.take(x) else {
            return;
        };
        let wanted = self.objects[x].expected.host.clone();
        let managed = self.objects[x].expected.managed.clone();
        let early = host_first.then(|| shared.host());
        let copied = stream.lease(&shared).and_then(|lease| {
            let Some(host) = lease.view().host else {
                return Ok(None);
            };
            stream
                .init_from_host(stream.alloc_uninit(host.len())?, &host)
                .map(Some)
        });
        let host = early.unwrap_or_else(|| shared.host());
        if let Some(host) = self.note(host) {
            self.compare(host.host.as_deref(), wanted.as_deref());
            self.did(Kind::HostLease);
            if let Unified::Managed(seen) = &host.unified {
                let seen = self.note(seen.to_vec());
                self.compare(seen.as_deref(), managed.as_deref());
                self.did(Kind::ManagedShared);
            }
        }
        self.put(x, (State::Shared(shared, leases), None));
        if let (Some(Some(copy)), Some(values)) = (self.note(copied), wanted) {
            self.made(S::keep(stream, one_part(copy)), values);
        }
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
