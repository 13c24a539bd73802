//! A part that a stream of another device uses.

use cuda_rt::{DeviceBuffer, Handoff, Idle, Live, Result, Stream};

use super::Side;
use crate::counts::Kind;
use crate::object::{Buffers, Expected, Lane};
use crate::plan::{Kernel, Way};
use crate::work::{apply_read, read};

/// A part on its way between devices, with its expected values and its place in its block.
pub(crate) struct Travelling<D: Live> {
    part: Handoff<DeviceBuffer<f32, Idle<D>>>,
    values: Vec<f32>,
    block: (u64, usize),
}

impl<D: Live> Side<D> {
    /// The first part of `x`, for another device.
    pub(crate) fn lend_abroad<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize) -> Option<Travelling<D>> {
        let lent = self.with(stream, x, |side, bundle, expected| {
            if bundle.parts.is_empty() {
                return None;
            }
            match stream.try_release(bundle.parts.remove(0)) {
                Ok(part) => Some(Travelling {
                    part,
                    values: expected.parts.remove(0),
                    block: expected.blocks.remove(0),
                }),
                Err(refused) => {
                    side.refused(&refused.error);
                    bundle.parts.insert(0, refused.value);
                    None
                }
            }
        });
        lent.flatten()
    }

    /// The part is back; it becomes the last part of `x`.
    pub(crate) fn take_back<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, part: Travelling<D>) {
        self.with(stream, x, |side, bundle, expected| {
            if let Some(back) = side.note(stream.acquire(part.part)) {
                bundle.parts.push(back);
                expected.parts.push(part.values);
                expected.blocks.push(part.block);
            }
        });
    }

    /// Uses a part of another device with the first part of `y`. `None` if the part is lost.
    pub(crate) fn use_abroad<S: Lane<D>, E: Live>(
        &mut self,
        stream: &Stream<S>,
        y: usize,
        theirs: Travelling<E>,
        kernel: Kernel,
        way: Way,
    ) -> Option<Travelling<E>> {
        let mut theirs = Some(theirs);
        let used = self.with(stream, y, |side, bundle, expected| {
            let part = theirs.take().expect("taken once");
            side.work_abroad(stream, (bundle, expected), part, kernel, way)
        });
        used.unwrap_or(theirs)
    }

    fn work_abroad<S: Lane<D>, E: Live>(
        &mut self,
        stream: &Stream<S>,
        (bundle, expected): (&mut Buffers<S>, &mut Expected),
        theirs: Travelling<E>,
        kernel: Kernel,
        way: Way,
    ) -> Option<Travelling<E>> {
        let (Some(ours), Some(our_values)) = (bundle.parts.first_mut(), expected.parts.first_mut()) else {
            return Some(theirs);
        };
        let Travelling {
            part,
            mut values,
            block,
        } = theirs;
        let len = values.len().min(our_values.len());
        let part = match way {
            Way::Within => {
                let mut peer = match stream.try_acquire_peer(part) {
                    Ok(peer) => peer,
                    Err(refused) => {
                        self.refused(&refused.error);
                        let part = refused.value;
                        return Some(Travelling { part, values, block });
                    }
                };
                // Ours into theirs, and back.
                let result = read(stream, kernel, &ours[..len], &mut peer[..len]);
                if self.note(result).is_some() {
                    apply_read(kernel, &our_values[..len], &mut values[..len]);
                }
                let result = read(stream, kernel, &peer[..len], &mut ours[..len]);
                if self.note(result).is_some() {
                    apply_read(kernel, &values[..len], &mut our_values[..len]);
                    self.did(Kind::Abroad);
                }
                let released = stream.release(peer);
                self.note(released)?.for_its_device()
            }
            Way::FromHost => {
                let copied = stream.try_copy_from_peer(part, ..len, &mut ours[..len]);
                let part = self.copied(copied.map_err(|refused| (refused.error, refused.value)), |side| {
                    our_values[..len].copy_from_slice(&values[..len]);
                    side.did(Kind::CopyFromPeer);
                });
                if part.is_none() {
                    // The copy may have been made.
                    drop(bundle.parts.remove(0));
                    expected.parts.remove(0);
                    expected.blocks.remove(0);
                }
                part?
            }
            Way::ToHost => {
                let copied = stream.try_copy_to_peer(&ours[..len], part, ..len);
                let part = self.copied(copied.map_err(|refused| (refused.error, refused.value)), |side| {
                    values[..len].copy_from_slice(&our_values[..len]);
                    side.did(Kind::CopyToPeer);
                });
                part?
            }
        };
        Some(Travelling { part, values, block })
    }

    /// The part after a copy. After an error it is dropped: the copy may have been made.
    fn copied<R>(&mut self, copied: Result<R, (cuda_rt::Error, R)>, done: impl FnOnce(&Self)) -> Option<R> {
        match copied {
            Ok(part) => {
                done(self);
                Some(part)
            }
            Err((error, _part)) => {
                self.refused(&error);
                None
            }
        }
    }
}
