//! Parts are added, removed, split and joined.

use cuda_rt::driver::Location;
use cuda_rt::{DeviceBuffer, Grid1, Live, ManagedBuffer, Metadata, PinnedBuffer, Result, Stream};
use device_kernels::add;

use super::{Side, one_part};
use crate::counts::Kind;
use crate::object::{Buffers, Expected, Lane, Object, Unified};
use crate::plan::{Make, NewHost, Then};

/// A part and its values, from which a new memory may be made.
type Source<'a, S> = Option<(&'a DeviceBuffer<f32, S>, &'a Vec<f32>)>;

/// The values of a kernel that returns twice its input.
fn doubled(values: &[f32]) -> Vec<f32> {
    values.iter().map(|value| value + value).collect()
}

impl<D: Live> Side<D> {
    /// Values that all differ, so that wrong bytes are always other bytes.
    fn values(&self, value: i8, len: usize) -> Vec<f32> {
        let base = f32::from(value) + self.blocks as f32 / 8.0;
        (0..len).map(|i| base + i as f32).collect()
    }

    /// A part of `len` elements, on the stream.
    fn part<S: Lane<D>>(
        &self,
        stream: &Stream<S>,
        how: Make,
        len: usize,
        source: Source<'_, S>,
    ) -> Result<(DeviceBuffer<f32, S>, Vec<f32>)> {
        Ok(match (how, source) {
            (Make::Zeroed, _) => (stream.alloc_zeroed(len)?, vec![0.0; len]),
            (Make::FromHost(value), _) => {
                let values = self.values(value, len);
                let source = stream.adopt(self.lanes.gpu.pinned_from(&values)?)?;
                (stream.init_from_host(stream.alloc_uninit(len)?, &source)?, values)
            }
            (Make::Copied, Some((part, values))) => (
                stream.init_from(stream.alloc_uninit(part.len())?, part)?,
                values.clone(),
            ),
            (Make::Returned, Some((part, values))) => {
                let returned = stream.alloc_uninit(part.len())?;
                let returned = add(stream, Grid1::covering(part.len()), part, part, returned)?;
                self.did(Kind::Returned);
                (returned, doubled(values))
            }
            (Make::Filled(_) | Make::Copied | Make::Returned, _) => {
                let value = if let Make::Filled(value) = how {
                    f32::from(value)
                } else {
                    1.5
                };
                (
                    stream.init_filled(stream.alloc_uninit(len)?, value)?,
                    vec![value; len],
                )
            }
        })
    }

    pub(crate) fn make<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        how: Make,
        len: usize,
        parts: u8,
        host: bool,
    ) {
        let (mut bundle, mut expected) = (
            Buffers {
                parts: Vec::new(),
                host: None,
                unified: Unified::Absent,
                label: Metadata::new(String::new()),
                number: self.blocks as u32,
            },
            Expected::default(),
        );
        for _ in 0..parts {
            self.grow_bundle(stream, how, len, &mut bundle, &mut expected);
        }
        if host {
            let made = self
                .lanes
                .gpu
                .pinned::<f32>(len)
                .and_then(|idle| stream.adopt(idle));
            bundle.host = self.note(made);
            expected.host = bundle.host.as_ref().map(|_| vec![0.0; len]);
        }
        let (state, error) = S::keep(stream, bundle);
        self.objects.push(Object { state, expected });
        if let Some(error) = error {
            self.refused(&error);
        }
    }

    fn grow_bundle<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        how: Make,
        len: usize,
        bundle: &mut Buffers<S>,
        expected: &mut Expected,
    ) {
        let source = bundle.parts.first().zip(expected.parts.first());
        let made = self.part(stream, how, len, source);
        if let Some((part, values)) = self.note(made) {
            bundle.parts.push(part);
            expected.parts.push(values);
            self.blocks += 1;
            expected.blocks.push((self.blocks, 0));
        }
    }

    pub(crate) fn grow<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, how: Make) {
        self.with(stream, x, |side, bundle, expected| {
            side.grow_bundle(stream, how, 8, bundle, expected)
        });
    }

    pub(crate) fn shrink<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, part: u8) {
        self.with(stream, x, |_, bundle, expected| {
            if let Some(part) = usize::from(part).checked_rem(bundle.parts.len()) {
                drop(bundle.parts.remove(part));
                expected.parts.remove(part);
                expected.blocks.remove(part);
            }
        });
    }

    pub(crate) fn new_host<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, how: NewHost) {
        self.with(stream, x, |side, bundle, expected| {
            if let (NewHost::Half, Some(host), Some(values)) = (how, &mut bundle.host, &mut expected.host) {
                let mid = values.len() / 2;
                drop(host.split_off(mid));
                values.truncate(mid);
                return;
            }
            let source = bundle.parts.first().zip(expected.parts.first());
            let made = side.pinned(stream, how, source);
            if let Some((host, values)) = side.note(made) {
                bundle.host = Some(host);
                expected.host = Some(values);
            }
        });
    }

    fn pinned<S: Lane<D>>(
        &self,
        stream: &Stream<S>,
        how: NewHost,
        source: Source<'_, S>,
    ) -> Result<(PinnedBuffer<f32, S>, Vec<f32>)> {
        const LEN: usize = 8;
        let gpu = &self.lanes.gpu;
        Ok(match (how, source) {
            (NewHost::Filled(value), _) => {
                let host = stream.adopt(gpu.pinned_uninit(LEN)?)?;
                let host = stream.init_host_filled(host, f32::from(value))?;
                self.did(Kind::FilledPinned);
                (host, vec![f32::from(value); LEN])
            }
            (NewHost::Returned, Some((part, values))) => {
                let output = stream.mapped_output(stream.adopt(gpu.pinned_uninit(part.len())?)?)?;
                let host = add(stream, Grid1::covering(part.len()), part, part, output)?;
                self.did(Kind::ReturnedMapped);
                (host, doubled(values))
            }
            _ => (stream.adopt(gpu.pinned(LEN)?)?, vec![0.0; LEN]),
        })
    }

    pub(crate) fn new_managed<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, how: Make, len: usize) {
        // Not every GPU has it.
        if !self.lanes.gpu.properties().concurrent_managed_access {
            return;
        }
        self.with(stream, x, |side, bundle, expected| {
            let source = bundle.parts.first().zip(expected.parts.first());
            let made = side.managed(stream, how, len, source);
            if let Some((managed, values)) = side.note(made) {
                side.blocks += 1;
                bundle.unified = Unified::Managed(managed);
                expected.managed = Some(values);
            }
        });
    }

    fn managed<S: Lane<D>>(
        &self,
        stream: &Stream<S>,
        how: Make,
        len: usize,
        source: Source<'_, S>,
    ) -> Result<(ManagedBuffer<f32, S>, Vec<f32>)> {
        let gpu = &self.lanes.gpu;
        let (kind, managed, values) = match (how, source) {
            (Make::Zeroed, _) => (
                Kind::ManagedZeroed,
                stream.adopt(gpu.managed(len)?)?,
                vec![0.0; len],
            ),
            (Make::Filled(value), _) => {
                let managed = stream.adopt(gpu.managed_uninit(len)?)?;
                let managed = stream.init_managed_filled(managed, f32::from(value))?;
                (Kind::ManagedFilled, managed, vec![f32::from(value); len])
            }
            (Make::Returned, Some((part, values))) => {
                let managed = stream.adopt(gpu.managed_uninit(part.len())?)?;
                let managed = add(stream, Grid1::covering(part.len()), part, part, managed)?;
                (Kind::ManagedReturned, managed, doubled(values))
            }
            (Make::FromHost(_) | Make::Copied | Make::Returned, _) => {
                let value = if let Make::FromHost(value) = how { value } else { 3 };
                let values = self.values(value, len);
                let managed = stream.adopt(gpu.managed_from(&values)?)?;
                (Kind::ManagedFromHost, managed, values)
            }
        };
        self.did(kind);
        Ok((managed, values))
    }

    pub(crate) fn prefetch<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        [from, upto]: [u8; 2],
        to_host: bool,
    ) {
        if self.objects[x].expected.managed.is_none() {
            self.new_managed(stream, x, Make::Filled(5), 16);
        }
        self.with(stream, x, |side, bundle, _| {
            if let Unified::Managed(managed) = &bundle.unified {
                let place = |eighths: u8| managed.len() * usize::from(eighths) / 8;
                let range = place(from.min(upto))..place(from.max(upto));
                let to = if to_host { Location::Host } else { Location::Device };
                if side.note(stream.prefetch(managed, range, to)).is_some() {
                    side.did(Kind::Prefetch);
                }
            }
        });
    }

    /// Splits a part in pieces and writes each piece.
    pub(crate) fn divide<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        part: u8,
        (pieces, value): (u8, i8),
        then: Then,
    ) {
        let made = self.with(stream, x, |side, bundle, expected| {
            let part = usize::from(part).checked_rem(bundle.parts.len())?;
            let (block, mut start) = expected.blocks.remove(part);
            let mut values = expected.parts.remove(part);
            let mut pieces = bundle.parts.remove(part).split_into(usize::from(pieces));
            side.did(Kind::SplitInto);
            let mut divided = Vec::new();
            for (number, piece) in pieces.iter_mut().enumerate() {
                let rest = values.split_off(piece.len());
                let value = f32::from(value) + number as f32 / 4.0;
                if side.note(stream.fill(piece, value)).is_some() {
                    values.fill(value);
                }
                divided.push((std::mem::replace(&mut values, rest), (block, start)));
                start += piece.len();
            }
            assert!(values.is_empty(), "the pieces are the part");
            let mut left = None;
            match then {
                Then::Join => {
                    // In another order the pieces are not joined.
                    let full = pieces.iter().filter(|piece| !piece.is_empty()).count();
                    if full > 1 {
                        pieces.rotate_left(1);
                        let refused = DeviceBuffer::try_join_all(pieces).expect_err("not in order");
                        pieces = refused.value;
                        pieces.rotate_right(1);
                    }
                    let joined = DeviceBuffer::try_join_all(pieces);
                    let joined = joined.unwrap_or_else(|refused| panic!("{}", refused.error));
                    side.did(Kind::JoinAll);
                    bundle.parts.push(joined);
                    expected.blocks.push(divided[0].1);
                    let values = divided.into_iter().flat_map(|(values, _)| values);
                    expected.parts.push(values.collect());
                    return None;
                }
                Then::Leave => left = pieces.pop().zip(divided.pop()),
                Then::Keep => {}
            }
            bundle.parts.extend(pieces);
            for (values, block) in divided {
                expected.parts.push(values);
                expected.blocks.push(block);
            }
            left.map(|(piece, (values, _))| (S::keep(stream, one_part(piece)), values))
        });
        if let Some(Some((instead, values))) = made {
            self.made(instead, values);
        }
    }

    pub(crate) fn split<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, part: u8, at: u8) {
        self.with(stream, x, |_, bundle, expected| {
            let Some(part) = usize::from(part).checked_rem(bundle.parts.len()) else {
                return;
            };
            let mid = expected.parts[part].len() * usize::from(at) / 8;
            let rest = bundle.parts[part].split_off(mid);
            bundle.parts.push(rest);
            let tail = expected.parts[part].split_off(mid);
            expected.parts.push(tail);
            let (block, start) = expected.blocks[part];
            expected.blocks.push((block, start + mid));
        });
    }

    pub(crate) fn join<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, a: u8, b: u8) {
        self.with(stream, x, |_, bundle, expected| {
            let parts = bundle.parts.len();
            let (Some(a), Some(b)) = (
                usize::from(a).checked_rem(parts),
                usize::from(b).checked_rem(parts),
            ) else {
                return;
            };
            if a == b {
                return;
            }
            let (values, next) = (expected.parts[a].clone(), expected.parts[b].clone());
            let ((block, start), (other, place)) = (expected.blocks[a], expected.blocks[b]);
            let neighbours = block == other && start + values.len() == place;
            let part = bundle.parts.remove(a);
            let tail = bundle.parts.remove(b - usize::from(b > a));
            match part.try_join(tail) {
                Ok(joined) => {
                    assert!(
                        neighbours,
                        "{:?} and {:?} were joined",
                        (block, start),
                        (other, place)
                    );
                    for i in [a.max(b), a.min(b)] {
                        expected.parts.remove(i);
                        expected.blocks.remove(i);
                    }
                    bundle.parts.push(joined);
                    expected.parts.push([values, next].concat());
                    expected.blocks.push((block, start));
                }
                Err(refused) => {
                    assert!(
                        !neighbours || values.is_empty() || next.is_empty(),
                        "{}",
                        refused.error
                    );
                    let (part, tail) = refused.value;
                    let mut back = [(a, part), (b, tail)];
                    back.sort_by_key(|(i, _)| *i);
                    back.into_iter()
                        .for_each(|(i, part)| bundle.parts.insert(i, part));
                }
            }
        });
    }

    pub(crate) fn slice<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, part: u8) {
        let whole = self.with(stream, x, |side, bundle, expected| {
            let Some(part) = usize::from(part).checked_rem(bundle.parts.len()) else {
                return true;
            };
            let (part, values) = (&mut bundle.parts[part], &mut expected.parts[part]);
            let mut seen = vec![-1.0; values.len()];
            if side.note(stream.copy_to_slice(part, &mut seen)).is_some() {
                side.compare(Some(&seen), Some(values));
            }
            seen.iter_mut().for_each(|value| *value += 0.5);
            // After an error it may hold a part of the data.
            let written = side.note(stream.copy_from_slice(&seen, part)).is_some();
            *values = seen;
            written
        });
        if whole == Some(false) {
            self.drop(x);
        }
    }
}
