//! Graphs that get another bundle.

use cuda_rt::{Error, Graph, Live, Metadata, Result, Stream};

use super::graph::body;
use super::{Side, catch};
use crate::object::{Buffers, Expected, IdleBundle, Lane, Object, Unified, slices};
use crate::work::{Op, enqueue};

/// The values of the bundle that a graph gets.
const REPLACED: f32 = 0.25;
/// The values of memory that a bundle may have had before.
const OCCUPIED: f32 = 42.0;

impl<D: Live> Side<D> {
    /// Replaces the graph's bundle by another of the same lengths. Compares the bundle that comes
    /// back with the model.
    pub(super) fn replace<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        captured: &mut Graph<IdleBundle<D>, S>,
        expected: &mut Expected,
        (ops, fork): ([Option<Op>; 2], Option<u8>),
    ) {
        let made = self.like(stream, expected, REPLACED);
        let Some((new, values)) = self.note(made) else {
            return;
        };
        let replaced = catch(|| {
            captured.replace(new, |inner, views| {
                body!(inner, views, ops, fork);
                Ok(())
            })
        });
        match replaced {
            Some(Ok(old)) => {
                self.tally.replaced += 1;
                let wanted = std::mem::replace(expected, values);
                self.compare_bundle(stream, old, &wanted);
            }
            Some(Err(refused)) => {
                // Calls that differ from the captured ones change nothing.
                if !matches!(refused.error, Error::NotAnUpdate { .. }) {
                    self.refused(&refused.error);
                }
                self.compare_bundle(stream, refused.value, &values);
            }
            // One of the bundles is freed. The graph must not write its memory any more.
            None => {
                let synchronized = stream.synchronize();
                self.note(synchronized);
                self.occupy(stream, expected);
                if let Some(launched) = catch(|| captured.launch(stream)) {
                    self.note(launched);
                }
            }
        }
    }

    /// A new bundle of the same lengths, filled with this value.
    fn like<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        like: &Expected,
        value: f32,
    ) -> Result<(Buffers<S>, Expected)> {
        let parts = like
            .parts
            .iter()
            .map(|part| stream.init_filled(stream.alloc_uninit(part.len())?, value));
        let host = like.host.as_ref().map(|host| {
            let idle = self.lanes.gpu.pinned_from(&vec![value; host.len()])?;
            stream.adopt(idle)
        });
        let bundle = Buffers {
            parts: parts.collect::<Result<_>>()?,
            host: host.transpose()?,
            unified: Unified::Absent,
            label: Metadata::new(like.label.clone()),
            number: 0,
        };
        let blocks = like.parts.iter().map(|_| {
            self.blocks += 1;
            (self.blocks, 0)
        });
        let expected = Expected {
            blocks: blocks.collect(),
            parts: like.parts.iter().map(|part| vec![value; part.len()]).collect(),
            host: like.host.as_ref().map(|host| vec![value; host.len()]),
            managed: None,
            label: like.label.clone(),
        };
        Ok((bundle, expected))
    }

    /// Takes memory that a bundle of these lengths may have had, and keeps it as an object.
    fn occupy<S: Lane<D>>(&mut self, stream: &Stream<S>, like: &Expected) {
        let made = self.like(stream, like, OCCUPIED);
        if let Some((bundle, expected)) = self.note(made) {
            let (state, error) = S::keep(stream, bundle);
            self.objects.push(Object { state, expected });
            if let Some(error) = error {
                self.refused(&error);
            }
        }
    }

    fn compare_bundle<S: Lane<D>>(&mut self, stream: &Stream<S>, bundle: Buffers<S>, wanted: &Expected) {
        for (part, wanted) in bundle.parts.iter().zip(&wanted.parts) {
            let seen = stream.copy_to_vec(part);
            if let Some(seen) = self.note(seen) {
                self.compare(Some(&seen), Some(wanted));
            }
        }
        if let (Some(host), Some(wanted)) = (bundle.host, &wanted.host) {
            let seen = stream.release(host).and_then(|host| host.synchronize());
            if let Some(seen) = self.note(seen) {
                self.compare(Some(&seen), Some(wanted));
            }
        }
    }
}
