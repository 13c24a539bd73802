//! Intervals between barriers in which shared memory is written.
//!
//! All threads meet the same barriers. So two threads can make two accesses at the same time only
//! if a path without a barrier leads to each access from one common point: a barrier, or the
//! kernel's start (Aiken and Gay, "Barrier Inference", POPL 1998).

use super::graph::Graph;
use super::instruction::{Collective, Effect};

/// For each block, whether a thread may write shared memory while another thread runs the block.
pub(super) fn written_meanwhile(graph: &Graph<'_, '_>, writes: &dyn Fn(usize) -> bool) -> Vec<bool> {
    let mut result = vec![false; graph.blocks.len()];
    let after_barriers = (0..graph.blocks.len())
        .filter(|block| ends_in_barrier(graph, *block))
        .flat_map(|block| graph.targets(block).iter().copied());
    for start in std::iter::once(0).chain(after_barriers) {
        let mut seen = vec![false; graph.blocks.len()];
        let (mut open, mut interval) = (vec![start], Vec::new());
        while let Some(block) = open.pop() {
            if std::mem::replace(&mut seen[block], true) {
                continue;
            }
            interval.push(block);
            if !ends_in_barrier(graph, block) {
                open.extend(graph.targets(block));
            }
        }
        if interval.iter().any(|block| writes(*block)) {
            interval.iter().for_each(|block| result[*block] = true);
        }
    }
    result
}

fn ends_in_barrier(graph: &Graph<'_, '_>, block: usize) -> bool {
    let last = graph.blocks[block].instructions.last();
    last.is_some_and(|(_, effect)| matches!(effect, Effect::Collective(Collective::Barrier { .. })))
}
