//! The closed grammar of operands: the verifier refuses each operand that it does not understand.
//!
//! The other parts of the verifier know what an instruction reads and writes only for the forms
//! here. An operand is a declared register, a number, a variable, a function, a label, or a special
//! register that `mov` alone reads. Any other word could name a value that nobody follows.

use std::collections::HashSet;

use super::body::{Body, Instruction, Kind, Name, Operand, Statement};
use super::bytes::Bytes;
use super::error::{Refusal, text};
use super::instruction::{Access, Collective, ENDS_THE_LAUNCH, Effect, PRINTS, effect, uses_carry, width};
use super::name_parts::are_known;
use super::parse::{Function, Module};
use super::variable::Space;

/// Special registers (PTX ISA, chapter 10). Most have the axes `.x`, `.y` and `.z`, or none.
const SPECIAL: &[&str] = &[
    "%tid",
    "%ntid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%ctaid",
    "%nctaid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%total_smem_size",
    "%dynamic_smem_size",
];
/// Checks all operands of a module.
pub(super) fn check(module: &Module<'_>) -> Result<(), Refusal> {
    let mut names = HashSet::new();
    let variables = module
        .variables
        .iter()
        .map(|variable| (variable.name, variable.line));
    for (name, line) in variables.chain(module.functions.iter().map(|function| (function.name, 0))) {
        if !names.insert(name) {
            return text(line, format!("`{name}` is declared twice"));
        }
    }
    for function in &module.functions {
        let Some(body) = &function.body else { continue };
        if [PRINTS, ENDS_THE_LAUNCH].contains(&function.name) {
            return text(
                0,
                format!(
                    "`{}` is a function of CUDA, and the text defines it",
                    function.name
                ),
            );
        }
        // Whether an instruction before this one, in the same block, has written the carry flag.
        let mut has_carry = false;
        for statement in &body.statements {
            let Statement::Instruction(instruction) = statement else {
                has_carry = false;
                continue;
            };
            let grammar = Grammar {
                module,
                function,
                body,
            };
            let carry = |()| grammar.carry(instruction, has_carry);
            match grammar.instruction(instruction).and_then(carry) {
                Ok(carry) => has_carry = carry,
                Err(reason) => {
                    return text(instruction.line, format!("`{}` {reason}", instruction.text));
                }
            }
        }
    }
    Ok(())
}

/// Why an instruction is refused.
type Reason = &'static str;

const FORM: Reason = "has a form that the verifier does not know";
const PART: Reason = "has a part in its name that the verifier does not know";

struct Grammar<'m, 'a> {
    module: &'m Module<'a>,
    function: &'m Function<'a>,
    body: &'m Body<'a>,
}

fn require(holds: bool, reason: Reason) -> Result<(), Reason> {
    if holds { Ok(()) } else { Err(reason) }
}

impl Grammar<'_, '_> {
    fn instruction(&self, instruction: &Instruction<'_>) -> Result<(), Reason> {
        let effect = effect(instruction)?;
        let is_predicate = |guard: &Name| self.body.types.get(guard) == Some(&".pred");
        require(
            instruction.guard.as_ref().is_none_or(is_predicate),
            "has a guard that is not a predicate",
        )?;
        let (written, read) = instruction.split(effect);
        written.iter().try_for_each(|operand| self.destination(operand))?;
        // `.uni` promises that all threads of the warp that run take one way. LLVM writes it
        // without a guard only, where this is so. ptxas trusts it: for sm_90 it leaves out what
        // brings the threads together again.
        require(
            instruction.guard.is_none() || !instruction.opcode.split('.').any(|part| part == "uni"),
            "promises by `.uni` that no thread differs in its guard",
        )?;
        require(are_known(instruction.opcode), PART)?;
        let base = instruction.opcode.split('.').next().unwrap_or("");
        match effect {
            Effect::Compute => self.computed(base, read),
            Effect::Nothing => read.iter().try_for_each(|operand| match operand {
                Operand::Address(base, _) => self.base(base, None),
                operand => self.value(operand),
            }),
            Effect::Load(access) => {
                let [address] = read else { return Err(FORM) };
                self.address(address, access, false)?;
                self.within_its_variable(address, instruction.opcode)
            }
            Effect::Store(access) => {
                let [address, value] = read else { return Err(FORM) };
                self.address(address, access, true)?;
                self.within_its_variable(address, instruction.opcode)?;
                self.values(value)
            }
            Effect::Atomic { access, .. } => {
                let [address, values @ ..] = read else {
                    return Err(FORM);
                };
                require(matches!(values.len(), 1 | 2), FORM)?;
                require(access.space != Some(Space::Param), FORM)?;
                self.address(address, access, true)?;
                values.iter().try_for_each(|value| self.values(value))
            }
            Effect::Collective(collective) => {
                let returns = match collective {
                    Collective::Barrier { returns } | Collective::Exchange { returns, .. } => returns,
                };
                require(!returns || !written.is_empty(), FORM)?;
                read.iter().try_for_each(|operand| self.value(operand))
            }
            Effect::Call => self.call(&instruction.operands),
            // The graph looks for the label.
            Effect::Branch => require(matches!(read, [Operand::Symbol(_)]), FORM),
            Effect::Differ | Effect::Return | Effect::Exit | Effect::Trap => require(read.is_empty(), FORM),
        }
    }

    /// Whether the carry flag is written after the instruction. A call does not keep the flag, and
    /// functions get no flag from their callers.
    fn carry(&self, instruction: &Instruction<'_>, is_written: bool) -> Result<bool, Reason> {
        let (reads, writes) = uses_carry(instruction.opcode);
        require(
            !reads || is_written,
            "reads the carry flag, which no instruction before it in its block writes",
        )?;
        Ok(match effect(instruction)? {
            Effect::Compute if writes => instruction.guard.is_none(),
            Effect::Compute | Effect::Load(_) | Effect::Store(_) => is_written,
            _ => false,
        })
    }

    fn is_register(&self, operand: &Operand<'_>) -> bool {
        matches!(operand, Operand::Name(name) if self.body.names[name.0].1 == Kind::Register)
    }

    /// The state space of a variable of the function.
    fn variable(&self, operand: &Operand<'_>) -> Option<(Name, Space)> {
        let Operand::Name(name) = operand else { return None };
        match self.body.names[name.0].1 {
            Kind::Variable(space) => Some((*name, space)),
            Kind::Register => None,
        }
    }

    /// The state space of a variable of the module.
    fn module_variable(&self, operand: &Operand<'_>) -> Option<Space> {
        let Operand::Symbol(symbol) = operand else {
            return None;
        };
        let variable = self
            .module
            .variables
            .iter()
            .find(|variable| variable.name == *symbol);
        variable.map(|variable| variable.space)
    }

    /// An operand that is written: registers, or `_` for a value that nobody needs.
    fn destination(&self, operand: &Operand<'_>) -> Result<(), Reason> {
        let is_one = |operand: &Operand<'_>| *operand == Operand::Sink || self.is_register(operand);
        let is_known = match operand {
            Operand::List(list) => !list.is_empty() && list.iter().all(is_one),
            operand => is_one(operand),
        };
        require(is_known, "writes something else than a declared register")
    }

    /// A register or a number.
    fn value(&self, operand: &Operand<'_>) -> Result<(), Reason> {
        let is_known = self.is_register(operand) || matches!(operand, Operand::Number(_));
        let reason = match operand {
            Operand::Special(_) => "reads a special register, which only `mov` may read, and alone",
            _ => "reads something else than a declared register or a number",
        };
        require(is_known, reason)
    }

    /// A value, or a list of values in braces.
    fn values(&self, operand: &Operand<'_>) -> Result<(), Reason> {
        match operand {
            Operand::List(list) => list.iter().try_for_each(|operand| self.value(operand)),
            operand => self.value(operand),
        }
    }

    /// The operands that an instruction computes a value from.
    fn computed(&self, base: &str, read: &[Operand<'_>]) -> Result<(), Reason> {
        let names_a_variable = matches!(base, "mov" | "cvta");
        require(!names_a_variable || read.len() == 1, FORM)?;
        for operand in read {
            match operand {
                Operand::Special(register) if base == "mov" => {
                    let (name, axis) = register.split_once('.').unwrap_or((register, "x"));
                    let is_known = SPECIAL.contains(&name) && matches!(axis, "x" | "y" | "z");
                    require(is_known, "reads a word that is no register")?;
                }
                Operand::Symbol(symbol) if names_a_variable => {
                    let is_function = self.module.functions.iter().any(|f| f.name == *symbol);
                    let is_known = is_function || self.module_variable(operand).is_some();
                    require(is_known, "reads a word that is neither a variable nor a function")?;
                }
                Operand::Name(_) if names_a_variable && !self.is_register(operand) => {
                    let (name, space) = self.variable(operand).ok_or(FORM)?;
                    // Memory of other parameters is written, by name; an address would hide this.
                    let is_constant = self.function.is_entry && name.0 < self.function.parameters.len();
                    require(
                        space != Space::Param || is_constant,
                        "takes the address of a parameter of a function",
                    )?;
                }
                Operand::List(_) if base == "mov" => self.values(operand)?,
                operand => self.value(operand)?,
            }
        }
        Ok(())
    }

    /// The address of an access.
    fn address(&self, address: &Operand<'_>, access: Access, writes: bool) -> Result<(), Reason> {
        let Operand::Address(base, _) = address else {
            return Err("has no address that the verifier can read");
        };
        if access.space != Some(Space::Param) {
            return self.base(base, Some(access));
        }
        match self.variable(base) {
            Some((name, Space::Param)) => {
                let is_constant = self.function.is_entry && name.0 < self.function.parameters.len();
                require(!(writes && is_constant), "writes to a parameter of an entry")
            }
            Some(_) => Err("names a variable of another state space"),
            // `check` asks where the register points.
            None => require(
                !writes && self.function.is_entry && self.is_register(base),
                "addresses a parameter of a function by another word than its name",
            ),
        }
    }

    /// An access by the name of a parameter stays inside it. Beyond its end lies the next
    /// parameter, about which the name says nothing.
    fn within_its_variable(&self, address: &Operand<'_>, opcode: &str) -> Result<(), Reason> {
        let Operand::Address(base, offset) = address else {
            return Ok(());
        };
        let Some((name, Space::Param)) = self.variable(base) else {
            return Ok(());
        };
        let accessed = Bytes::of_access(*offset, width(opcode));
        let size = self.body.sizes.get(&name);
        let is_inside = size.is_some_and(|size| Bytes::of_size(*size).contains(&accessed));
        require(
            is_inside && !accessed.is_empty(),
            "reaches beyond the parameter that it names",
        )
    }

    fn base(&self, base: &Operand<'_>, access: Option<Access>) -> Result<(), Reason> {
        let declared = self.variable(base).map(|(_, space)| space);
        match declared.or(self.module_variable(base)) {
            Some(space) => require(
                access.is_none_or(|access| access.space == Some(space)),
                "names a variable of another state space",
            ),
            None => self.value(base),
        }
    }

    /// `(results), function, (arguments)`
    fn call(&self, operands: &[Operand<'_>]) -> Result<(), Reason> {
        let (results, rest) = match operands {
            [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
            rest => (&[][..], rest),
        };
        let (name, arguments) = match rest {
            [Operand::Symbol(name)] => (name, &[][..]),
            [Operand::Symbol(name), Operand::List(arguments)] => (name, arguments.as_slice()),
            _ => return Err("calls through a pointer, or has a form that the verifier does not know"),
        };
        let called = self
            .module
            .functions
            .iter()
            .find(|function| function.name == *name);
        let passed = (results.len(), arguments.len());
        require(
            called.is_none_or(|called| passed == (called.results.len(), called.parameters.len())),
            "passes other parameters than the function takes",
        )?;
        let is_parameter = |operand: &Operand<'_>| matches!(self.variable(operand), Some((_, Space::Param)));
        for result in results.iter().filter(|result| !is_parameter(result)) {
            self.destination(result)?;
        }
        for argument in arguments.iter().filter(|argument| !is_parameter(argument)) {
            self.value(argument)?;
        }
        Ok(())
    }
}
