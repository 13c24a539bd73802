//! Explains why a value differs, by a chain of instructions.

use std::collections::HashSet;

use super::body::{Instruction, Name};
use super::error::{Place, Reasons};
use super::graph::End;
use super::instruction::PATHS;
use super::parse::Module;
use super::uniform::{Analysis, Cause};

/// The greatest length of a chain; a longer chain explains no more.
const LONGEST: usize = 12;

/// The place of an instruction.
pub(super) fn place(module: &Module<'_>, instruction: &Instruction<'_>) -> Place {
    let source = instruction.location.and_then(|(file, line)| {
        let file = module.files.get(&file)?;
        Some(((*file).to_owned(), line))
    });
    Place {
        text: instruction.text.clone(),
        line: instruction.line,
        source,
    }
}

/// The chain from the branch in whose region `block` lies to a value that differs by itself.
pub(super) fn reasons(module: &Module<'_>, analysis: &Analysis<'_, '_>, block: usize) -> Reasons {
    let mut reasons = Reasons::default();
    let Some(branch) = analysis.region[block].1 else {
        return reasons;
    };
    let End::Choice { by, at, .. } = &analysis.graph.blocks[branch].end else {
        return reasons;
    };
    let reason = format!(
        "threads diverge at this branch, because `{}` differs",
        analysis.text(*by)
    );
    reasons.0.push((place(module, at), reason));
    reasons.0.extend(reasons_of(module, analysis, *by, at).0);
    reasons
}

/// The chain from `value`, which the instruction `at` reads, to a value that differs by itself.
pub(super) fn reasons_of(
    module: &Module<'_>,
    analysis: &Analysis<'_, '_>,
    value: Name,
    at: &Instruction<'_>,
) -> Reasons {
    let mut reasons = Reasons::default();
    let mut add = |instruction: &Instruction<'_>, reason: String| {
        reasons.0.push((place(module, instruction), reason));
    };
    let (mut next, mut seen): (Option<Name>, _) = (Some(value), HashSet::new());
    while let Some(name) = next.take() {
        if !seen.insert(name) || seen.len() > LONGEST {
            break;
        }
        let text = analysis.text(name);
        let mut cause = analysis.cause(name);
        if let Some(Cause::Local(instruction)) = cause {
            add(
                instruction,
                format!("`{text}` is read from local memory, where it differs"),
            );
            cause = analysis.local_cause();
        }
        match cause {
            Some(Cause::Value(instruction, from)) if instruction.opcode == PATHS => {
                add(
                    instruction,
                    format!("several paths meet here, and one of them brings this `{text}`"),
                );
                next = Some(from);
            }
            Some(Cause::Value(instruction, from)) => {
                add(
                    instruction,
                    format!("`{text}` is computed from `{}`", analysis.text(from)),
                );
                next = Some(from);
            }
            Some(Cause::Branch(instruction, by, at)) => {
                add(
                    instruction,
                    format!("only some threads write `{text}` here, or some write it more often"),
                );
                add(
                    at,
                    format!(
                        "because threads diverge at this branch, on `{}`",
                        analysis.text(by)
                    ),
                );
                next = Some(by);
            }
            Some(Cause::Source(instruction, reason)) => add(instruction, reason.to_owned()),
            Some(Cause::Argument) => add(
                at,
                format!("`{text}` is a parameter, and the call passes a value that differs"),
            ),
            Some(Cause::Unwritten) => add(at, format!("`{text}` is read on a path that never wrote it")),
            Some(Cause::Local(_)) | None => {}
        }
    }
    reasons
}
