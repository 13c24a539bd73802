//! Loops that may never end: each must contain an instruction that NVIDIA's compiler keeps.
//!
//! The compiler of PTX (`ptxas`, and the same code in the driver) removes a loop that computes
//! nothing that is used. It assumes that the loop ends, as C++ does; the manual of PTX is silent
//! about it. In Rust, a loop may run for ever, and LLVM concludes from a loop's exit: behind
//! `while at >= len || at != m { .. }`, it drops the check `m < len`. Without the loop and without
//! the check, a safe kernel would access any address.
//!
//! Therefore each cycle of the control flow must end for all values (`counter.rs`), or contain an
//! instruction with an effect outside the thread ([`is_kept`]). Such a cycle is no dead code, so
//! the compiler may not assume that it ends. [`keep`] adds an instruction to the other cycles.
//!
//! The search covers all cycles, also of irreducible control flow. It removes the blocks that a
//! thread cannot run for ever, and looks for cycles among the blocks that are left:
//!
//! - A block with a kept instruction.
//! - A block that a thread runs only finitely often while it stays in its strongly connected
//!   component, because a counter bounds it.
//!
//! Claim: if no cycle is left, a thread that never ends executes kept instructions for ever. Proof:
//! the blocks that the thread runs infinitely often are strongly connected. Consider the first of
//! them to be removed. Until then all of them lay in one component, and from some time on the
//! thread stays in it. So a counter cannot have bounded the block, and it has a kept instruction.
//! No function is recursive, so the claim holds for calls too.

use std::collections::BTreeSet;

use super::body::{Body, Instruction, Operand, Statement};
use super::check::Checker;
use super::counter::Counters;
use super::error::{Place, Refusal};
use super::graph::{Blocks, Graph};
use super::instruction::{Collective, Effect};
use super::variable::Space;

/// The instruction that [`keep`] adds. It triggers an event of the performance monitor, and changes
/// nothing that a kernel can read (PTX ISA, chapter 9, "pmevent"). Programs may use the events 0 to
/// 7 (CUDA C++ Programming Guide, "Profiler Counter Function"); a tool that counts events sees it.
const KEPT: &str = "pmevent \t7;";

/// A loop that may never end, and contains no instruction that the compiler keeps.
struct Endless<'a> {
    label: &'a str,
    /// The line of the label.
    line: u32,
}

/// Whether the compiler must keep the instruction, and may not assume how often it runs.
///
/// Other instructions do not count, though some versions of `ptxas` keep them: `ptxas` 13.5 drops a
/// plain load, `ld.relaxed`, a store to local memory, and a read of the clock. A weak store may
/// move behind the loop, because no other thread may look at its memory meanwhile.
fn is_kept(instruction: &Instruction<'_>, effect: Effect) -> bool {
    let is_shared = |space| matches!(space, None | Some(Space::Global | Space::Shared));
    match effect {
        Effect::Collective(Collective::Barrier { .. }) => true,
        Effect::Atomic { access, .. } => is_shared(access.space),
        Effect::Store(access) => !access.is_weak && is_shared(access.space),
        Effect::Nothing => {
            instruction.opcode == "pmevent" && matches!(instruction.operands.as_slice(), [Operand::Number(_)])
        }
        _ => false,
    }
}

/// Finds the loops of a function that may never end, and contain no kept instruction. The names of
/// the body are those of [`name_values`](super::definitions::name_values).
fn endless<'a>(body: &Body<'a>, graph: &Graph<'_, 'a>) -> Vec<Endless<'a>> {
    let keeps = |block: usize| {
        let mut instructions = graph.blocks[block].instructions.iter();
        instructions.any(|(instruction, effect)| is_kept(instruction, *effect))
    };
    let blocks = (0..graph.blocks.len()).filter(|block| graph.is_reachable[*block] && !keeps(*block));
    let mut open = graph.cyclic_components(&blocks.collect());
    if open.is_empty() {
        return Vec::new();
    }
    let counters = Counters::new(body, graph);
    let mut labels: Vec<(u32, &str, usize)> = Vec::new();
    for statement in &body.statements {
        if let Statement::Label(label, line) = statement {
            labels.push((*line, label, graph.labels[label]));
        }
    }
    let mut found = Vec::new();
    while let Some(mut component) = open.pop() {
        let bounded = counters.bounded(&component);
        let removed = bounded.unwrap_or_else(|| {
            // Only a branch leads back to the component's first block in the text, so a block has a
            // label. The start of the outermost loop leaves the fewest blocks in cycles.
            let cyclic = |block: usize| {
                let mut without = component.clone();
                without.remove(&block);
                graph
                    .cyclic_components(&without)
                    .iter()
                    .map(Blocks::len)
                    .sum::<usize>()
            };
            let inside = labels.iter().filter(|(_, _, block)| component.contains(block));
            let best = inside.min_by_key(|(_, _, block)| cyclic(*block));
            let (line, label, block) = *best.expect("a cycle has a branch to a label");
            found.push(Endless { label, line });
            block
        });
        component.remove(&removed);
        open.extend(graph.cyclic_components(&component));
    }
    found
}

/// Refuses a function with a loop that may never end, and that the compiler may remove.
pub(super) fn check(checker: &Checker<'_, '_>) -> Result<(), Refusal> {
    for (function, body, graph) in checker.functions() {
        if let Some(Endless { label, line }) = endless(body, graph).into_iter().next() {
            return Err(Refusal::Loop {
                function: function.name.to_owned(),
                start: Place {
                    text: format!("{label}:"),
                    line,
                    source: None,
                },
            });
        }
    }
    Ok(())
}

/// Adds an instruction that the compiler keeps to each loop that may never end and has none.
///
/// # Errors
/// A text that the verifier cannot read.
pub(super) fn keep(ptx: &str) -> Result<String, Refusal> {
    let mut after = BTreeSet::new();
    for module in &super::modules(ptx)? {
        // The proof refuses the text for the same reason.
        let Ok(checker) = Checker::new(module) else {
            continue;
        };
        for (_, body, graph) in checker.functions() {
            after.extend(endless(body, graph).iter().map(|endless| endless.line));
        }
    }
    let mut out = String::with_capacity(ptx.len());
    for (number, line) in (1..).zip(ptx.split_inclusive('\n')) {
        out.push_str(line);
        if after.contains(&number) {
            out.push_str(&format!("\t{KEPT} // the loop may never end\n"));
        }
    }
    Ok(out)
}
