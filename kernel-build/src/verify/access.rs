//! Checks the accesses to memory, in a function and by the functions that it calls.

use super::body::{Kind, Name, Operand};
use super::bytes::Bytes;
use super::check::Check;
use super::instruction::{Effect, arguments, callee, results, width};
use super::origin::Origin;
use super::parameters::Role;
use super::uniform::Summary;
use super::variable::Space;

const WRITES_MODULE: &str = "may write to memory of the module, which all kernels share";
const WRITES_INPUT: &str = "may write to an input, which other kernels may read meanwhile";
const WRITES_PARAMETERS: &str = "may write to the entry's parameters, which all threads share";
const WRITES_UNKNOWN: &str = "writes through an address, and the verifier does not know the memory to which it points: if a function gets the \
     address of a local variable, mark the function `#[inline(always)]`";
const READS_FILLED: &str =
    "may read the output of what the kernel returns, which may hold nothing before the launch";
const ORDERS_LOCAL: &str = "is an atomic or ordered access to local memory, which a GPU does not have: a variable of \
    one thread needs no atomic, so use a plain variable or a `Cell`; for a value that threads share, use an `Atomic` \
    parameter";
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
            if let Operand::Address(base, offset) = address
                && let Operand::Name(parameter) = **base
                && !writes
            {
                let read = Bytes::of_access(*offset, width(self.instruction.opcode));
                self.must_be_written(parameter, &read);
            }
            return;
        }
        if writes {
            if !matches!(access.space, Some(Space::Local | Space::Global)) {
                summary.writes_shared |= origin.may_be(Origin::SHARED);
            }
            self.written(origin, summary);
        }
        if !matches!(effect, Effect::Store(_)) {
            self.read(origin, summary);
        }
        if matches!(effect, Effect::Atomic { .. }) || !access.is_weak {
            self.ordered(origin, summary);
        }
        if access.is_read_only && !writes {
            self.read_cached(origin, summary);
        }
    }

    /// The bytes of a parameter of a call that instructions before this one, in the same block,
    /// have written. A call ends this for its arguments and for results of earlier calls: PTX does
    /// not say that their memory keeps its contents.
    fn written_before(&self, parameter: Name) -> Bytes {
        let block = &self.analysis.graph.blocks[self.block].instructions;
        let before = block
            .iter()
            .take_while(|(instruction, _)| !std::ptr::eq(*instruction, self.instruction));
        let (mut written, mut is_result) = (Bytes::default(), false);
        for (instruction, effect) in before {
            match (effect, instruction.operands.first()) {
                (Effect::Store(access), Some(Operand::Address(base, offset)))
                    if access.space == Some(Space::Param) && **base == Operand::Name(parameter) =>
                {
                    written.add_all(&Bytes::of_access(*offset, width(instruction.opcode)));
                }
                (Effect::Call, _) => {
                    let mut is_argument = false;
                    for argument in arguments(instruction) {
                        argument.each_name(&mut |name| is_argument |= name == parameter);
                    }
                    if is_argument || is_result {
                        written = Bytes::default();
                    }
                    for (at, result) in results(instruction).iter().enumerate() {
                        if *result == Operand::Name(parameter) {
                            let name = callee(instruction).unwrap_or("");
                            written = self.checker.written_result(name, at).0;
                            is_result = true;
                        }
                    }
                }
                _ => {}
            }
        }
        written
    }

    /// Refuses a read of bytes of a parameter of a call, unless the same block wrote them before:
    /// each thread may find other bytes there.
    fn must_be_written(&self, parameter: Name, read: &Bytes) {
        let results = self.function.results.len();
        let given = results + self.function.parameters.len();
        if self.body.names[parameter.0].1 != Kind::Variable(Space::Param) {
            return;
        }
        if parameter.0 < results {
            self.memory_refusal("reads the result of its own function");
        } else if parameter.0 >= given && !self.written_before(parameter).contains(read) {
            self.memory_refusal(
                "reads bytes of a parameter of a call, and nothing before it wrote these bytes",
            );
        }
    }

    /// Checks that the parameters of a call are written, as far as the called function reads them.
    pub(super) fn arguments_must_be_written(&self, name: &str) {
        for (at, argument) in arguments(self.instruction).iter().enumerate() {
            argument.each_name(&mut |parameter| {
                let size = self.body.sizes.get(&parameter).copied().unwrap_or(u64::MAX);
                let read = self.checker.read_of_parameter(name, at);
                self.must_be_written(parameter, &read.unwrap_or(Bytes::of_size(size)));
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
        if called.reads != Origin::NONE {
            self.read(accessed(called.reads), summary);
        }
        if called.reads_cached != Origin::NONE {
            self.read_cached(accessed(called.reads_cached), summary);
        }
        if called.orders != Origin::NONE {
            self.ordered(accessed(called.orders), summary);
        }
        summary.writes_shared |= called.writes_shared;
    }

    /// Checks an atomic operation, or an access with a memory order. PTX has them for global and
    /// shared memory, and for generic addresses of these (PTX ISA, chapter 9, "ld", "st", "atom",
    /// "red"). On local memory their effect is not defined.
    fn ordered(&self, origin: Origin, summary: &mut Summary) {
        if origin.has(Origin::LOCAL) {
            self.memory_refusal(ORDERS_LOCAL);
        }
        if !self.function.is_entry {
            summary.orders |= origin.given();
        }
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

    /// Checks a read of memory of this origin.
    fn read(&self, origin: Origin, summary: &mut Summary) {
        let fills = self.given.roles.contains(&Role::Fills);
        if self.has_role(origin, Role::Fills) || origin.is_unknown() && self.function.is_entry && fills {
            self.memory_refusal(READS_FILLED);
        }
        if !self.function.is_entry {
            summary.reads |= origin.given();
        }
    }

    /// Checks a read of memory of this origin through the read-only cache.
    fn read_cached(&self, origin: Origin, summary: &mut Summary) {
        let mut roles = self.given.roles.iter();
        let writes = roles.any(|role| matches!(role, Role::Writes | Role::Fills));
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
