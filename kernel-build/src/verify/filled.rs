//! Each thread of a kernel that returns its element writes the element before it ends (H39).
//!
//! Only the entry's own checks end a thread before: whether the thread's place lies in the launch
//! and in the output, and which thread of a block writes the block's element. They decide by the
//! *place* alone: by the registers of the thread's position, by lengths and by the launch's extent.
//! So a way to the end without a store must leave the ways with a store at a branch on such a
//! value.
//!
//! LLVM makes no other way of a correct program. This check is for a store that LLVM left out,
//! because it took the value or the code behind it for undefined. It does not show that the branch
//! compares the right values, or that the stores write all bytes of the element.

use std::collections::HashSet;

use super::body::{Body, Instruction, Name, Operand};
use super::graph::{End, Graph};
use super::instruction::{ENDS_THE_LAUNCH, Effect, PATHS, PRINTS, arguments, callee, effect, uses_carry};
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
            && !is_of_place(entry, body, graph, roles, *by)
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

/// Special registers that say where a thread is (PTX ISA, chapter 10). Clocks, for example, do not
/// belong to them.
fn says_place(register: &str) -> bool {
    ["%tid", "%ntid", "%ctaid", "%nctaid", "%laneid"]
        .iter()
        .any(|known| register.split('.').next() == Some(known))
}

/// The instructions that write a register.
fn writers<'b, 'a>(body: &'b Body<'a>, name: Name) -> impl Iterator<Item = &'b Instruction<'a>> {
    body.instructions().filter(move |instruction| {
        let written = effect(instruction).map_or(&[][..], |effect| instruction.split(effect).0);
        let mut is_written = false;
        for operand in written {
            operand.each_name(&mut |written| is_written |= written == name);
        }
        is_written
    })
}

/// Whether all paths bring the same value to the join, computed in the same way on each.
fn brings_one_value(body: &Body<'_>, join: &Instruction<'_>) -> bool {
    let [first, others @ ..] = join.split(Effect::Compute).1 else {
        return false;
    };
    others
        .iter()
        .all(|other| are_equal(body, first, other, MOST_STEPS))
}

/// The most instructions, one behind the other, that [`are_equal`] compares.
const MOST_STEPS: usize = 8;

/// Whether two operands have the same value because the same instructions compute it from the same
/// operands. Numbers and registers that are written with each other are not followed.
fn are_equal(body: &Body<'_>, left: &Operand<'_>, right: &Operand<'_>, steps: usize) -> bool {
    if left == right {
        return true;
    }
    let (Operand::Name(left), Operand::Name(right), 1..) = (left, right, steps) else {
        return false;
    };
    let writer = |name: Name| {
        let mut found = writers(body, name);
        found.next().filter(|_| found.next().is_none())
    };
    let (Some(left), Some(right)) = (writer(*left), writer(*right)) else {
        return false;
    };
    let operands = |of: &'_ Instruction<'_>| of.split(Effect::Compute).1.len();
    let is_followed = |of: &Instruction<'_>| {
        of.opcode != PATHS
            && of.guard.is_none()
            && matches!(effect(of), Ok(Effect::Compute))
            && !uses_carry(of.opcode).0
    };
    left.opcode == right.opcode
        && is_followed(left)
        && is_followed(right)
        && operands(left) == operands(right)
        && left
            .split(Effect::Compute)
            .1
            .iter()
            .zip(right.split(Effect::Compute).1)
            .all(|(left, right)| are_equal(body, left, right, steps - 1))
}

/// The values that choose the path by which a thread comes to the block.
fn choices_before<'g>(graph: &'g Graph<'_, '_>, block: usize) -> impl Iterator<Item = Name> + 'g {
    let parts_before =
        move |at: usize| graph.meets_at[at] == Some(block) || graph.region(at).contains(&block);
    graph
        .blocks
        .iter()
        .enumerate()
        .filter_map(move |(at, found)| match found.end {
            End::Choice { by, .. } if graph.is_reachable[at] && parts_before(at) => Some(by),
            _ => None,
        })
}

/// Whether a value is computed from places, numbers, lengths and the extent alone. Where paths
/// bring different values, the choice of the path is a part of the computation.
fn is_of_place(
    entry: &Function<'_>,
    body: &Body<'_>,
    graph: &Graph<'_, '_>,
    roles: &[Role],
    value: Name,
) -> bool {
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
        for writer in writers(body, name) {
            open.extend(writer.guard);
            match effect(writer) {
                Ok(Effect::Compute) => {
                    if uses_carry(writer.opcode).0 {
                        return false;
                    }
                    for operand in writer.split(Effect::Compute).1 {
                        if matches!(operand, Operand::Special(register) if !says_place(register)) {
                            return false;
                        }
                        operand.each_name(&mut |name| open.push(name));
                    }
                    if writer.opcode == PATHS && !brings_one_value(body, writer) {
                        let at = graph.blocks.iter().position(|block| {
                            let mut instructions = block.instructions.iter();
                            instructions.any(|(instruction, _)| std::ptr::eq(*instruction, writer))
                        });
                        let Some(at) = at else { return false };
                        open.extend(choices_before(graph, at));
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
            // The input chooses between two numbers, by a branch or by a guard.
            "mov.b32 %r7, 0;\n@%p2 bra L;\nmov.b32 %r7, 1;\nL: setp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
            "mov.b32 %r7, 0;\n@%p2 mov.b32 %r7, 1;\nsetp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
            "@%p1 bra End;\nmov.b32 %r7, 0;\n@%p2 bra M;\n@%p1 bra L;\nM: mov.b32 %r7, 1;\nL: setp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
            "mov.b32 %r7, 0;\nL: add.s32 %r7, %r7, 1;\nsetp.lt.s32 %p4, %r7, %r6;\n@%p4 bra L;\nsetp.eq.s32 %p5, %r7, 3;\n@%p5 bra End;\nSTORE\nEnd:",
            "@%p2 bra L;\nadd.s32 %r7, %r5, 1;\nbra M;\nL: add.s32 %r7, %r5, 2;\nM: setp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
            // A clock is no place.
            "mov.u32 %r7, %clock;\nsetp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
            "mov.u32 %r7, %smid;\nsetp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
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
            // The input chooses the path, but both paths bring the same value of the place.
            "@%p2 bra L;\nadd.s32 %r7, %r5, 1;\nbra M;\nL: add.s32 %r7, %r5, 1;\nM: setp.eq.s32 %p4, %r7, 0;\n@%p4 bra End;\nSTORE\nEnd:",
            "mov.u32 %r7, %ctaid.x;\nsetp.eq.s32 %p4, %r7, 0;\nor.pred %p5, %p1, %p4;\n@%p5 bra End;\nSTORE\nEnd:",
        ] {
            returning(&body.replace("STORE", STORE)).accepted();
        }
    }
}
