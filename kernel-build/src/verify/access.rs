//! Checks the accesses to memory, in a function and by the functions that it calls.

use super::body::{Kind, Operand};
use super::check::Check;
use super::instruction::{Effect, arguments, results};
use super::origin::Origin;
use super::parameters::Role;
use super::uniform::Summary;
use super::variable::Space;

const WRITES_MODULE: &str = "may write to memory of the module, which all kernels share";
const WRITES_INPUT: &str = "may write to an input, which other kernels may read meanwhile";
const WRITES_PARAMETERS: &str = "may write to the entry's parameters, which all threads share";
const WRITES_UNKNOWN: &str =
    "writes through an address, and the verifier does not know the memory to which it points";
const READS_WRITTEN: &str = "reads through the read-only cache what the kernel may write";

impl Check<'_, '_, '_> {
    /// Checks a load, a store or an atomic.
    pub(super) fn memory(&self, effect: Effect, summary: &mut Summary) {
        let (access, writes) = match effect {
            Effect::Load(access) => (access, false),
            Effect::Store(access) | Effect::Atomic { access, .. } => (access, true),
            _ => return,
        };
        let mut operands = self.instruction.operands.iter();
        let Some(address) = operands.find(|o| matches!(o, Operand::Address(..))) else {
            return self.memory_refusal("has no address that the verifier can read");
        };
        let origins = &self.analysis.origins;
        let origin = origins.address(self.checker.module, self.body, access, address);
        if access.space == Some(Space::Param) {
            if !origin.is_only(Origin::PARAMETERS) {
                self.memory_refusal("reads a parameter at an address that the verifier does not know");
            }
            if !writes {
                self.must_be_written(std::slice::from_ref(address));
            }
            return;
        }
        if writes {
            if !matches!(access.space, Some(Space::Local | Space::Global)) {
                summary.writes_shared |= origin.may_be(Origin::SHARED);
            }
            self.written(origin, summary);
        }
        if access.is_read_only && !writes {
            self.read_cached(origin, summary);
        }
    }

    /// Refuses a read of a parameter of a call, unless the same block wrote it before: its value
    /// would differ.
    pub(super) fn must_be_written(&self, operands: &[Operand<'_>]) {
        let block = &self.analysis.graph.blocks[self.block].instructions;
        let before = block
            .iter()
            .take_while(|(instruction, _)| !std::ptr::eq(*instruction, self.instruction));
        let mut known = Vec::new();
        for (instruction, effect) in before {
            let written = match effect {
                Effect::Store(access) if access.space == Some(Space::Param) => &instruction.operands[..1],
                Effect::Call => results(instruction),
                _ => &[],
            };
            written
                .iter()
                .for_each(|operand| operand.each_name(&mut |name| known.push(name)));
        }
        let given = self.function.results.len() + self.function.parameters.len();
        for operand in operands {
            operand.each_name(&mut |name| {
                let is_of_call = self.body.names[name.0].1 == Kind::Variable(Space::Param) && name.0 >= given;
                if is_of_call && !known.contains(&name) {
                    self.memory_refusal(
                        "reads a parameter of a call, and nothing before it wrote the parameter",
                    );
                }
            });
        }
    }

    /// Checks the accesses of a called function.
    pub(super) fn memory_of_call(&self, called: &Summary, summary: &mut Summary) {
        let accessed = |targets| {
            self.analysis
                .origins
                .accessed(targets, arguments(self.instruction))
        };
        if called.writes != Origin::NONE {
            let origin = accessed(called.writes);
            summary.writes_shared |= origin.may_be(Origin::SHARED);
            self.written(origin, summary);
        }
        if called.reads_cached != Origin::NONE {
            self.read_cached(accessed(called.reads_cached), summary);
        }
        summary.writes_shared |= called.writes_shared;
    }

    /// Checks a write to memory of this origin.
    fn written(&self, origin: Origin, summary: &mut Summary) {
        if origin.has(Origin::MODULE) {
            self.memory_refusal(WRITES_MODULE);
        } else if origin.has(Origin::PARAMETERS) {
            self.memory_refusal(WRITES_PARAMETERS);
        } else if self.has_role(origin, Role::Reads) {
            self.memory_refusal(WRITES_INPUT);
        } else if origin.is_unknown() && (self.function.is_entry || !origin.has(Origin::UNKNOWN)) {
            self.memory_refusal(WRITES_UNKNOWN);
        }
        if !self.function.is_entry {
            summary.writes |= origin.given();
        }
    }

    /// Checks a read of memory of this origin through the read-only cache.
    fn read_cached(&self, origin: Origin, summary: &mut Summary) {
        let writes = self.given.roles.contains(&Role::Writes);
        if self.has_role(origin, Role::Writes) || origin.is_unknown() && self.function.is_entry && writes {
            self.memory_refusal(READS_WRITTEN);
        }
        if !self.function.is_entry {
            summary.reads_cached |= origin.given();
        }
    }

    /// Whether memory of this origin may belong to a parameter of the entry with this role.
    fn has_role(&self, origin: Origin, role: Role) -> bool {
        let mut roles = self.given.roles.iter().enumerate();
        self.function.is_entry && roles.any(|(at, is)| *is == role && origin.has(Origin::parameter(at)))
    }
}
