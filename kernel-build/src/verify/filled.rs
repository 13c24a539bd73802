//! Each thread of a kernel that returns its element writes the element before it ends (H39).
//!
//! Only the entry's own checks end a thread before: whether the thread's place lies in the launch
//! and in the output, and which thread of a block writes the block's element. They decide by the
//! *place* alone: by special registers, lengths and the extent of the launch. So a way to the end
//! without a store must leave the ways with a store at a branch on such a value.
//!
//! LLVM makes no other way of a correct program. This check is for a store that LLVM left out,
//! because it took the value or the code behind it for undefined. It does not show that the branch
//! compares the right values, or that the stores write all bytes of the element.

use std::collections::HashSet;

use super::body::{Body, Instruction, Name, Operand};
use super::graph::{End, Graph};
use super::instruction::{ENDS_THE_LAUNCH, Effect, PRINTS, arguments, callee, effect};
use super::origin::{Origin, Origins};
use super::parameters::Role;
use super::parse::{Function, Module};
use super::variable::Space;
use super::written::Unwritten;

/// The branch at which a thread may leave all ways with a store to the memory for what the kernel
/// returns, though the branch depends on more than the thread's place.
///
/// An entry without any store is not looked at.
pub(super) fn leaves_unwritten<'b, 'a>(
    module: &Module<'a>,
    entry: &'b Function<'a>,
    graph: &Graph<'b, 'a>,
    roles: &[Role],
) -> Option<&'b Instruction<'a>> {
    let filled = Origin::parameter(roles.iter().position(|role| *role == Role::Fills)?);
    let body = entry.body.as_ref()?;
    let origins = Origins::new(module, entry, body, graph, roles, &Unwritten::new(body, graph));
    let stores: Vec<bool> = (0..graph.blocks.len())
        .map(|block| {
            let mut instructions = graph.blocks[block].instructions.iter();
            instructions
                .any(|(instruction, effect)| may_store(module, body, &origins, instruction, *effect, filled))
        })
        .collect();
    let leads_to_store = leads_to(graph, |block| stores[block]);
    let leads_to_end = leads_to(graph, |block| {
        !stores[block] && matches!(graph.blocks[block].end, End::Return)
    });
    // Blocks that a thread reaches without a store.
    let (mut open, mut seen) = (vec![0], HashSet::new());
    while let Some(block) = open.pop() {
        if stores[block] || !leads_to_store[block] || !seen.insert(block) {
            continue;
        }
        open.extend(graph.living_targets(block));
        let leaves = graph
            .living_targets(block)
            .any(|target| !leads_to_store[target] && leads_to_end[target]);
        if let End::Choice { by, at, .. } = &graph.blocks[block].end
            && leaves
            && !is_of_place(entry, body, roles, *by)
        {
            return Some(at);
        }
    }
    None
}

/// Whether the instruction may write the memory of `filled`, itself or in a function that it calls.
fn may_store(
    module: &Module<'_>,
    body: &Body<'_>,
    origins: &Origins,
    instruction: &Instruction<'_>,
    effect: Effect,
    filled: Origin,
) -> bool {
    match effect {
        Effect::Store(access) if access.space != Some(Space::Param) => {
            let mut operands = instruction.operands.iter();
            operands.any(|operand| {
                matches!(operand, Operand::Address(..))
                    && origins.address(module, body, access, operand).has(filled)
            })
        }
        Effect::Call if ![Some(PRINTS), Some(ENDS_THE_LAUNCH)].contains(&callee(instruction)) => {
            let mut reached = Origin::NONE;
            for argument in arguments(instruction) {
                argument.each_name(&mut |name| reached |= origins.reached_from(name));
            }
            reached.has(filled)
        }
        _ => false,
    }
}

/// The blocks from which a way leads to a block that `is_goal`.
fn leads_to(graph: &Graph<'_, '_>, is_goal: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut leads: Vec<bool> = (0..graph.blocks.len())
        .map(|block| graph.is_reachable[block] && is_goal(block))
        .collect();
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..graph.blocks.len()).rev() {
            if !leads[block] && graph.targets(block).iter().any(|target| leads[*target]) {
                (leads[block], changed) = (true, true);
            }
        }
    }
    leads
}

/// Whether a value is computed from special registers, numbers, lengths and the extent alone.
fn is_of_place(entry: &Function<'_>, body: &Body<'_>, roles: &[Role], value: Name) -> bool {
    let is_length = |parameter: usize| {
        let before = parameter.checked_sub(1).and_then(|before| roles.get(before));
        parameter + 1 == roles.len()
            || roles.get(parameter) == Some(&Role::Value) && before.is_some_and(|role| *role != Role::Value)
    };
    let (mut open, mut seen) = (vec![value], HashSet::new());
    while let Some(name) = open.pop() {
        if !seen.insert(name) {
            continue;
        }
        // LLVM leaves a register unwritten only where its value does not matter.
        let writers = body.instructions().filter(|instruction| {
            let written = effect(instruction).map_or(&[][..], |effect| instruction.split(effect).0);
            let mut is_written = false;
            for operand in written {
                operand.each_name(&mut |written| is_written |= written == name);
            }
            is_written
        });
        for writer in writers {
            match effect(writer) {
                Ok(Effect::Compute) => {
                    for operand in writer.split(Effect::Compute).1 {
                        operand.each_name(&mut |name| open.push(name));
                    }
                }
                Ok(Effect::Load(access)) if access.space == Some(Space::Param) => {
                    let is_known = match writer.operands.get(1) {
                        Some(Operand::Address(base, _)) => {
                            matches!(**base, Operand::Name(Name(at)) if at < entry.parameters.len() && is_length(at))
                        }
                        _ => false,
                    };
                    if !is_known {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::verify::refused::{FILLED, INPUT, NUMBER, OWN, Text};

    /// An entry that returns its element `%r5`. `%p1` depends on the thread's place, `%p2` on an
    /// input, and `%p3` on a number that the launch passes.
    fn returning(body: &str) -> Text {
        let values = "ld.param.u64 %rd1, [filled];\nld.param.u64 %rd2, [input];\nld.param.u64 %rd3, [number];\n\
            ld.param.u64 %rd4, [extent];\nld.param.u64 %rd5, [length0];\nmin.u64 %rd6, %rd4, %rd5;\n\
            cvt.u64.u32 %rd7, %r5;\nsetp.ge.u64 %p1, %rd7, %rd6;\n\
            ld.global.u32 %r6, [%rd2];\nsetp.eq.s32 %p2, %r6, 0;\nsetp.eq.s64 %p3, %rd3, 0;\n";
        Text::of(format!("{OWN}{values}{body}"))
            .taking(&[FILLED, INPUT, NUMBER])
            .with(".func puts(.param .b64 to) { .reg .b64 %w; ld.param.b64 %w, [to]; st.b32 [%w], 1; ret; }")
    }

    const STORE: &str = "st.global.u32 [%rd1], %r5;";

    #[test]
    fn a_way_without_a_store_that_data_chooses_is_refused() {
        for body in [
            "@%p2 bra End;\nSTORE\nEnd:",
            "@%p3 bra End;\nSTORE\nEnd:",
            "@%p1 bra End;\n@%p2 bra End;\nSTORE\nEnd:",
            "@%p2 STORE",
            "@%p1 bra End;\n@!%p2 bra Else;\nSTORE\nbra End;\nElse: @%p3 bra End;\nSTORE\nEnd:",
            // The store of another element, and a loop that may make no turn.
            "@%p2 bra End;\nL: STORE\nadd.s32 %r5, %r5, 1;\nsetp.lt.s32 %p4, %r5, %r6;\n@%p4 bra L;\nEnd:",
            // The place and the input together.
            "or.pred %p4, %p1, %p2;\n@%p4 bra End;\nSTORE\nEnd:",
            "selp.b32 %r7, %r5, %r6, %p1;\nsetp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
            // An address of an output is no length, and local memory holds anything.
            "setp.eq.s64 %p4, %rd1, 0;\n@%p4 bra End;\nSTORE\nEnd:",
            "st.local.u32 [depot], %r6;\nld.local.u32 %r7, [depot];\nsetp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
        ] {
            returning(&body.replace("STORE", STORE)).refused("a thread may end before it has written");
        }
    }

    #[test]
    fn ways_that_the_place_chooses_and_ways_that_trap_are_accepted() {
        for body in [
            "STORE",
            "@%p1 bra End;\nSTORE\nEnd:",
            "@!%p1 STORE",
            "@%p1 bra End;\n@%p2 bra Else;\nSTORE\nbra End;\nElse: STORE\nEnd:",
            "@%p1 bra End;\n@%p2 bra Fail;\nSTORE\nbra End;\nFail: trap;\nEnd:",
            "@%p1 bra End;\nL: pmevent 7;\n@%p2 bra L;\nSTORE\nEnd:",
            "@%p1 bra End;\n@%p2 bra L;\nSTORE\nbra End;\nL: pmevent 7;\nbra L;\nEnd:",
            "STORE\n@%p2 bra End;\nst.global.u32 [%rd1+4], %r5;\nEnd:",
            "@%p1 bra End;\n{ .param .b64 a; st.param.b64 [a], %rd1; call.uni puts, (a); }\n@%p2 bra End;\nSTORE\nEnd:",
            "@%p1 bra L;\nmov.b32 %r7, %r5;\nL: setp.eq.s32 %p4, %r7, 0;\nor.pred %p5, %p1, %p4;\n@%p5 bra End;\nSTORE\nEnd:",
            "mov.u32 %r7, %ctaid.x;\nsetp.eq.s32 %p4, %r7, 0;\nor.pred %p5, %p1, %p4;\n@%p5 bra End;\nSTORE\nEnd:",
        ] {
            returning(&body.replace("STORE", STORE)).accepted();
        }
    }
}
