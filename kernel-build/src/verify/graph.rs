//! The control flow of a function: its blocks, its cycles, the blocks that must end in a trap, and
//! the places where diverged threads meet again.
//!
//! Post-dominators come from the algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance
//! Algorithm", 2001), on the reversed graph.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::body::{Body, Instruction, Name, Operand, Statement};
use super::error::{Refusal, text};
use super::instruction::{Collective, Effect, callee, effect};

/// A basic block: control enters it only at its start, and leaves it only at its end.
#[derive(Debug, Default)]
pub(super) struct Block<'b, 'a> {
    pub(super) instructions: Vec<(&'b Instruction<'a>, Effect)>,
    pub(super) end: End<'b, 'a>,
}

/// The end of a block.
#[derive(Debug, Default)]
pub(super) enum End<'b, 'a> {
    /// Continues at one block.
    Next(usize),
    /// Continues at a block that a value chooses.
    Choice {
        by: Name,
        at: &'b Instruction<'a>,
        targets: Vec<usize>,
    },
    /// Ends the function, or the thread.
    #[default]
    Return,
    /// Ends the launch with an error.
    Trap,
}

/// Blocks, by their numbers in the graph.
pub(super) type Blocks = BTreeSet<usize>;

/// The blocks of a function; the first is where it starts.
#[derive(Debug)]
pub(super) struct Graph<'b, 'a> {
    pub(super) blocks: Vec<Block<'b, 'a>>,
    pub(super) labels: HashMap<&'a str, usize>,
    pub(super) is_reachable: Vec<bool>,
    /// Whether every path from the block ends in a trap, with no barrier or exchange before it.
    pub(super) is_doomed: Vec<bool>,
    /// The first block that all paths from the block meet, except for paths that end in a trap.
    /// `None` if they meet only at the function's end.
    pub(super) meets_at: Vec<Option<usize>>,
}

struct Builder<'b, 'a> {
    blocks: Vec<Block<'b, 'a>>,
    labels: HashMap<&'a str, usize>,
    /// The block to which instructions are added.
    current: usize,
    is_open: bool,
}

impl<'b, 'a> Builder<'b, 'a> {
    fn new_block(&mut self) -> usize {
        self.blocks.push(Block::default());
        self.blocks.len() - 1
    }

    fn end(&mut self, end: End<'b, 'a>) {
        self.blocks[self.current].end = end;
        self.is_open = false;
    }

    fn start(&mut self, block: usize) {
        if self.is_open {
            self.end(End::Next(block));
        }
        self.current = block;
        self.is_open = true;
    }

    fn label(&self, label: &str, line: u32) -> Result<usize, Refusal> {
        match self.labels.get(label) {
            Some(block) => Ok(*block),
            None => text(line, format!("the label `{label}` does not exist")),
        }
    }

    fn instruction(
        &mut self,
        instruction: &'b Instruction<'a>,
        never_returns: &dyn Fn(&str) -> bool,
    ) -> Result<(), Refusal> {
        let line = instruction.line;
        let effect = match effect(instruction) {
            Ok(effect) => effect,
            Err(reason) => return text(line, format!("`{}` {reason}", instruction.text)),
        };
        if !self.is_open {
            let block = self.new_block();
            self.start(block);
        }
        let target = |builder: &Self| match instruction.operands.as_slice() {
            [Operand::Symbol(label)] => builder.label(label, line),
            _ => text(line, format!("`{}` names no label", instruction.text)),
        };
        // An instruction under a predicate is a branch around the instruction.
        if let Some(by) = instruction.guard {
            let after = self.new_block();
            let then = if effect == Effect::Branch {
                target(self)?
            } else {
                self.new_block()
            };
            self.end(End::Choice {
                by,
                at: instruction,
                targets: vec![then, after],
            });
            if effect != Effect::Branch {
                self.start(then);
                self.plain(instruction, effect, never_returns);
            }
            self.start(after);
            return Ok(());
        }
        if effect == Effect::Branch {
            let target = target(self)?;
            self.end(End::Next(target));
            return Ok(());
        }
        self.plain(instruction, effect, never_returns);
        Ok(())
    }

    fn plain(
        &mut self,
        instruction: &'b Instruction<'a>,
        effect: Effect,
        never_returns: &dyn Fn(&str) -> bool,
    ) {
        self.blocks[self.current].instructions.push((instruction, effect));
        match effect {
            Effect::Return | Effect::Exit => self.end(End::Return),
            Effect::Trap => self.end(End::Trap),
            Effect::Call if callee(instruction).is_some_and(never_returns) => self.end(End::Trap),
            // A barrier ends its block, so that code between two barriers has blocks of its own.
            Effect::Collective(Collective::Barrier { .. }) => {
                let next = self.new_block();
                self.start(next);
            }
            _ => {}
        }
    }
}

impl<'b, 'a> Graph<'b, 'a> {
    /// The graph of `body`. `never_returns` names functions whose calls never return; `meets` names
    /// functions that have a barrier or an exchange.
    pub(super) fn new(
        body: &'b Body<'a>,
        never_returns: &dyn Fn(&str) -> bool,
        meets: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Refusal> {
        let mut builder = Builder {
            blocks: vec![Block::default()],
            labels: HashMap::new(),
            current: 0,
            is_open: true,
        };
        for statement in &body.statements {
            if let Statement::Label(label, line) = statement {
                let block = builder.new_block();
                if builder.labels.insert(label, block).is_some() {
                    return text(*line, format!("the label `{label}` is defined twice"));
                }
            }
        }
        for statement in &body.statements {
            match statement {
                Statement::Label(label, line) => {
                    let block = builder.label(label, *line)?;
                    builder.start(block);
                }
                Statement::Instruction(instruction) => builder.instruction(instruction, never_returns)?,
            }
        }
        if builder.is_open {
            builder.end(End::Return);
        }
        let mut graph = Self {
            blocks: builder.blocks,
            labels: builder.labels,
            is_reachable: Vec::new(),
            is_doomed: Vec::new(),
            meets_at: Vec::new(),
        };
        graph.is_reachable = vec![false; graph.blocks.len()];
        let mut open = vec![0];
        while let Some(block) = open.pop() {
            if !std::mem::replace(&mut graph.is_reachable[block], true) {
                open.extend(graph.targets(block));
            }
        }
        graph.find_doomed(meets);
        graph.meets_at = post_dominators(&graph);
        Ok(graph)
    }

    /// The line of the last instruction of a block.
    pub(super) fn last_line(&self, block: usize) -> Option<u32> {
        let Block { instructions, end } = &self.blocks[block];
        match end {
            End::Choice { at, .. } => Some(at.line),
            _ => instructions.last().map(|(instruction, _)| instruction.line),
        }
    }

    /// The blocks at which a block continues.
    pub(super) fn targets(&self, block: usize) -> &[usize] {
        match &self.blocks[block].end {
            End::Next(next) => std::slice::from_ref(next),
            End::Choice { targets, .. } => targets,
            End::Return | End::Trap => &[],
        }
    }

    /// The blocks at which a block continues, without the blocks that must end in a trap.
    pub(super) fn living_targets(&self, block: usize) -> impl Iterator<Item = usize> {
        self.targets(block)
            .iter()
            .copied()
            .filter(|target| !self.is_doomed[*target])
    }

    /// Whether threads can diverge at the end of the block.
    pub(super) fn is_choice(&self, block: usize) -> bool {
        let mut targets = self.living_targets(block);
        let first = targets.next();
        targets.any(|target| Some(target) != first)
    }

    fn find_doomed(&mut self, meets: &dyn Fn(&str) -> bool) {
        self.is_doomed = vec![false; self.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for block in (0..self.blocks.len()).rev() {
                if self.is_doomed[block] {
                    continue;
                }
                let Block { instructions, end } = &self.blocks[block];
                let is_doomed = match end {
                    End::Trap => true,
                    End::Return => false,
                    End::Next(_) | End::Choice { .. } => {
                        self.targets(block).iter().all(|t| self.is_doomed[*t])
                    }
                };
                let is_together = |(instruction, effect): &(&Instruction<'_>, Effect)| match effect {
                    Effect::Collective(_) => true,
                    Effect::Call => callee(instruction).is_some_and(meets),
                    _ => false,
                };
                if is_doomed && !instructions.iter().any(is_together) {
                    self.is_doomed[block] = true;
                    changed = true;
                }
            }
        }
    }

    /// All blocks on the paths from `block` to the place where all paths meet, without both ends.
    /// The block itself belongs to them only if a path leads back to it.
    pub(super) fn region(&self, block: usize) -> Vec<usize> {
        let end = self.meets_at[block];
        let mut seen = vec![false; self.blocks.len()];
        let mut open: Vec<usize> = self.living_targets(block).collect();
        let mut region = Vec::new();
        while let Some(next) = open.pop() {
            if Some(next) != end && !std::mem::replace(&mut seen[next], true) {
                region.push(next);
                open.extend(self.living_targets(next));
            }
        }
        region
    }

    /// The strongly connected components among `members` that have a cycle.
    pub(super) fn cyclic_components(&self, members: &Blocks) -> Vec<Blocks> {
        let mut predecessors: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let (mut seen, mut finished) = (Blocks::new(), Vec::new());
        for start in members {
            let mut open = Vec::new();
            if seen.insert(*start) {
                open.push((*start, 0));
            }
            while let Some((block, at)) = open.pop() {
                let Some(target) = self.targets(block).get(at) else {
                    finished.push(block);
                    continue;
                };
                open.push((block, at + 1));
                if members.contains(target) {
                    predecessors.entry(*target).or_default().push(block);
                    if seen.insert(*target) {
                        open.push((*target, 0));
                    }
                }
            }
        }
        let mut left = members.clone();
        let mut found = Vec::new();
        // The last block to be finished comes first (the algorithm of Kosaraju and Sharir).
        for start in finished.into_iter().rev() {
            let (mut component, mut open) = (Blocks::new(), Vec::new());
            if left.remove(&start) {
                open.push(start);
            }
            while let Some(block) = open.pop() {
                component.insert(block);
                let before = predecessors.get(&block).into_iter().flatten();
                open.extend(before.copied().filter(|block| left.remove(block)));
            }
            if component.len() > 1 || component.contains(&start) && self.targets(start).contains(&start) {
                found.push(component);
            }
        }
        found
    }
}

/// For each block, the next block that all paths from it meet. A path that never ends counts as a
/// path that ends at once.
fn post_dominators(graph: &Graph<'_, '_>) -> Vec<Option<usize>> {
    let exit = graph.blocks.len();
    let lives = |block: usize| graph.is_reachable[block] && !graph.is_doomed[block];
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); exit + 1];
    let mut predecessors: Vec<Vec<usize>> = vec![Vec::new(); exit + 1];
    for block in (0..exit).filter(|block| lives(*block)) {
        successors[block].extend(graph.living_targets(block));
        if successors[block].is_empty() {
            successors[block].push(exit);
        }
        for target in &successors[block] {
            predecessors[*target].push(block);
        }
    }
    let mut order = order(exit, &predecessors);
    for block in (0..exit).filter(|block| lives(*block)) {
        if !order.contains(&block) {
            successors[block].push(exit);
            predecessors[exit].push(block);
        }
    }
    order = self::order(exit, &predecessors);

    let mut rank = vec![usize::MAX; exit + 1];
    for (at, block) in order.iter().enumerate() {
        rank[*block] = at;
    }
    let mut next: Vec<Option<usize>> = vec![None; exit + 1];
    next[exit] = Some(exit);
    let mut changed = true;
    while changed {
        changed = false;
        for block in order.iter().skip(1).copied() {
            let mut known = successors[block].iter().copied().filter(|s| next[*s].is_some());
            let Some(mut meeting) = known.next() else { continue };
            for mut other in known {
                while meeting != other {
                    // The end has rank 0, and a block's post-dominator has a lower rank than the
                    // block.
                    if rank[meeting] > rank[other] {
                        meeting = next[meeting].unwrap_or(exit);
                    } else {
                        other = next[other].unwrap_or(exit);
                    }
                }
            }
            if next[block] != Some(meeting) {
                next[block] = Some(meeting);
                changed = true;
            }
        }
    }
    next.truncate(exit);
    next.into_iter()
        .map(|meeting| meeting.filter(|block| *block != exit))
        .collect()
}

/// The blocks in reverse postorder from `start`.
fn order(start: usize, edges: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; edges.len()];
    let mut order = Vec::new();
    let mut open = vec![(start, 0)];
    seen[start] = true;
    while let Some((block, at)) = open.pop() {
        match edges[block].get(at) {
            Some(next) => {
                open.push((block, at + 1));
                if !std::mem::replace(&mut seen[*next], true) {
                    open.push((*next, 0));
                }
            }
            None => order.push(block),
        }
    }
    order.reverse();
    order
}
