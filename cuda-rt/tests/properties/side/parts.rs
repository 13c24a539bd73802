//! Parts are added, removed, split and joined.

use cuda_rt::{DeviceBuffer, Live, Result, Stream};

use super::Side;
use crate::object::{Buffers, Expected, Lane, Object};
use crate::plan::Make;

impl<D: Live> Side<D> {
    /// A part of `len` elements, on the stream.
    fn part<S: Lane<D>>(
        &self,
        stream: &Stream<S>,
        how: Make,
        len: usize,
        source: Option<(&DeviceBuffer<f32, S>, &Vec<f32>)>,
    ) -> Result<(DeviceBuffer<f32, S>, Vec<f32>)> {
        Ok(match (how, source) {
            (Make::Zeroed, _) => (stream.alloc_zeroed(len)?, vec![0.0; len]),
            (Make::FromHost(value), _) => {
                // All values differ, so that wrong bytes are always other bytes.
                let base = f32::from(value) + self.blocks as f32 / 8.0;
                let values: Vec<f32> = (0..len).map(|i| base + i as f32).collect();
                let source = stream.adopt(self.lanes.gpu.pinned_from(&values)?)?;
                (stream.init_from_host(stream.alloc_uninit(len)?, &source)?, values)
            }
            (Make::Copied, Some((part, values))) => (
                stream.init_from(stream.alloc_uninit(part.len())?, part)?,
                values.clone(),
            ),
            (Make::Filled(_) | Make::Copied, _) => {
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

    pub(crate) fn new_host<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, split: bool) {
        self.with(stream, x, |side, bundle, expected| {
            if let (true, Some(host), Some(values)) = (split, &mut bundle.host, &mut expected.host) {
                let mid = values.len() / 2;
                drop(host.split_off(mid));
                values.truncate(mid);
                return;
            }
            let made = side
                .lanes
                .gpu
                .pinned::<f32>(8)
                .and_then(|idle| stream.adopt(idle));
            if let Some(host) = side.note(made) {
                bundle.host = Some(host);
                expected.host = Some(vec![0.0; 8]);
            }
        });
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
