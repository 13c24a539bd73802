//! Addresses for a program's memory: a part lies inside its whole, and parts with different names
//! are disjoint.

use std::collections::BTreeMap;
use std::ops::Range;

use super::statement::{Part, Region};

/// A block of memory, or a part of one, with its own parts.
#[derive(Debug, Default)]
struct Node {
    parts: BTreeMap<Part, Node>,
    bytes: Range<u64>,
}

impl Node {
    /// Gives bytes to each part, one part after another. One more byte stands for memory outside
    /// all parts.
    fn place(&mut self, start: u64) -> u64 {
        let mut end = start + 1;
        for part in self.parts.values_mut() {
            end = part.place(end);
        }
        self.bytes = start..end;
        end
    }
}

/// The bytes of every region that a program names.
#[derive(Debug, Default)]
pub(super) struct Layout {
    memory: BTreeMap<String, Node>,
}

impl Layout {
    pub(super) fn new<'a>(
        regions: impl Iterator<Item = &'a Region>,
        names: impl Iterator<Item = &'a str>,
    ) -> Self {
        let mut memory: BTreeMap<String, Node> =
            names.map(|name| (name.to_owned(), Node::default())).collect();
        for region in regions {
            let mut node = memory.entry(region.memory.text.clone()).or_default();
            for part in &region.parts {
                node = node.parts.entry(*part).or_default();
            }
        }
        let mut end = 0;
        for node in memory.values_mut() {
            end = node.place(end);
        }
        Self { memory }
    }

    pub(super) fn bytes(&self, region: &Region) -> Range<u64> {
        let mut node = &self.memory[&region.memory.text];
        for part in &region.parts {
            node = &node.parts[part];
        }
        node.bytes.clone()
    }

    pub(super) fn whole(&self, name: &str) -> Range<u64> {
        self.memory[name].bytes.clone()
    }
}
