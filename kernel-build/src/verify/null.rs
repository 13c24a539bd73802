//! Null, and other constants, among the addresses of shared and local memory.
//!
//! LLVM moves a choice between an address of shared memory and null into the addresses of the
//! space: it converts null to the space, compares there, and converts the choice back. So LLVM
//! believes that a constant comes back from a space as it went, and equals no address of the space.
//! In PTX, the result for an address outside the space's window is undefined (PTX ISA, chapter 9,
//! "cvta"). GPUs give 0, which is the first address of the space, and comes back as the window's
//! beginning. Counterexample: `None` of `Option<&[u32]>` arrives as `Some`, with a length of the
//! caller's choice.
//!
//! [`rewrite`] gives these constants a place of their own among the addresses of the space: the
//! constant `c` becomes `c + 2^63`. Memory of a space begins at 0 there, and ends below 2^32. A
//! value that may be such a constant is converted back by
//!
//! ```text
//! add.s64 t, s, -4611686018427387904;
//! setp.ge.s64 p, t, 0;
//! add.s64 n, s, -9223372036854775808;
//! cvta.shared.u64 c, s;
//! selp.b64 d, n, c, p;
//! ```
//!
//! `p` holds for 2^62 <= s < 3 * 2^62, so for each constant between -2^61 and 2^61, and what lies
//! less than 2^61 from it. For an address of the space, `d` is what `cvta` gives.
//!
//! [`check`] knows nothing of what was written. It follows what certainly is an address of a space,
//! or the same address for all spaces, and refuses each conversion of another value, but this
//! sequence. So no constant goes through `cvta`. Two things hold of constants beside addresses:
//! equal stay equal, and sums with numbers stay sums. Their order does not hold, for null lies
//! below each address. So `check` refuses a comparison by order of an address with what may be
//! none.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::body::{Body, Instruction, Kind, Name, Operand, Statement};
use super::error::{Refusal, text};
use super::instruction::PATHS;
use super::parse::Module;
use super::variable::Space;

/// A half and a quarter of all addresses, as signed numbers.
const HALF: i64 = i64::MIN;
const QUARTER: i64 = i64::MIN / 2;
/// The greatest constant that has a place among the addresses of a space.
const GREATEST: u64 = 1 << 61;

/// What is certain about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// An address in a space, or a sum of one and a number.
    Inside(Space),
    /// The same, as an address for all spaces.
    Generic(Space),
    /// A constant of at most [`GREATEST`].
    Constant,
    /// Nothing.
    Any,
}
use Value::{Any, Constant, Generic, Inside};

/// A conversion of an address between a space and all spaces. `None` for global memory, whose
/// addresses are the same.
#[derive(Clone, Copy)]
enum Conversion {
    From(Space),
    To(Space),
}

/// The conversion that an instruction makes. An error for a form of `cvta` that is not known.
fn conversion(opcode: &str) -> Result<Option<Conversion>, ()> {
    Ok(Some(match opcode {
        "cvta.shared.u64" => Conversion::From(Space::Shared),
        "cvta.local.u64" => Conversion::From(Space::Local),
        "cvta.const.u64" => Conversion::From(Space::Const),
        "cvta.param.u64" => Conversion::From(Space::Param),
        "cvta.to.shared.u64" => Conversion::To(Space::Shared),
        "cvta.to.local.u64" => Conversion::To(Space::Local),
        "cvta.to.const.u64" => Conversion::To(Space::Const),
        "cvta.to.param.u64" => Conversion::To(Space::Param),
        "cvta.global.u64" | "cvta.to.global.u64" => return Ok(None),
        _ if opcode.split('.').next() == Some("cvta") => return Err(()),
        _ => return Ok(None),
    }))
}

fn base<'a>(instruction: &Instruction<'a>) -> &'a str {
    instruction.opcode.split('.').next().unwrap_or("")
}

/// An instruction that does not agree with what LLVM believes, and why.
struct Wrong<'b, 'a> {
    instruction: &'b Instruction<'a>,
    reason: &'static str,
}

/// The values of a body that has a name for each value (`definitions.rs`).
struct Values<'b, 'a> {
    module: &'b Module<'a>,
    body: &'b Body<'a>,
    /// By name; `None` for a name that nothing is known to reach yet.
    of: Vec<Option<Value>>,
    /// The names that may hold an address of a space, or are computed from one.
    from_space: HashSet<Name>,
    reads: HashMap<Name, usize>,
}

impl<'b, 'a> Values<'b, 'a> {
    fn of(module: &'b Module<'a>, body: &'b Body<'a>) -> Self {
        let mut values = Self {
            module,
            body,
            of: vec![Some(Any); body.names.len()],
            from_space: HashSet::new(),
            reads: HashMap::new(),
        };
        for instruction in body.instructions() {
            let (written, read) = instruction.operands.split_at(instruction.written_operands());
            each(written, &mut |name| values.of[name.0] = None);
            each(read, &mut |name| *values.reads.entry(name).or_default() += 1);
        }
        values.follow_spaces();
        loop {
            let before = values.of.clone();
            for instruction in body.instructions() {
                let written = &instruction.operands[..instruction.written_operands()];
                if written.is_empty() {
                    continue;
                }
                let value = values.computed(instruction);
                each(written, &mut |name| {
                    values.of[name.0] = join(values.of[name.0], value)
                });
            }
            if values.of == before {
                return values;
            }
        }
    }

    /// Finds what may be an address of a space.
    fn follow_spaces(&mut self) {
        loop {
            let before = self.from_space.len();
            for instruction in self.body.instructions() {
                let (written, read) = instruction.operands.split_at(instruction.written_operands());
                let may_be = |operand: &&Operand<'_>| self.is_from_space(operand);
                let is_from_space = match base(instruction) {
                    "cvta" => matches!(conversion(instruction.opcode), Ok(Some(Conversion::To(_)))),
                    // The distance of two addresses is the same in all spaces.
                    "sub" => read.iter().filter(may_be).count() == 1,
                    "mov" | "selp" | "slct" | "add" | "mad" | "or" | "and" | "xor" | "not" | "neg"
                    | "min" | "max" | PATHS => read.iter().any(|operand| self.is_from_space(operand)),
                    _ => false,
                };
                if is_from_space {
                    each(written, &mut |name| {
                        self.from_space.insert(name);
                    });
                }
            }
            if self.from_space.len() == before {
                return;
            }
        }
    }

    fn is_from_space(&self, operand: &Operand<'_>) -> bool {
        match operand {
            Operand::List(list) => list.iter().any(|operand| self.is_from_space(operand)),
            Operand::Name(name) if self.from_space.contains(name) => true,
            operand => matches!(self.value(operand), Some(Inside(_))),
        }
    }

    /// What is certain about an operand.
    fn value(&self, operand: &Operand<'_>) -> Option<Value> {
        let inside = |space| match space {
            Space::Global => Any,
            space => Inside(space),
        };
        Some(match operand {
            Operand::Name(name) => match self.body.names[name.0].1 {
                Kind::Register => return self.of[name.0],
                Kind::Variable(space) => inside(space),
            },
            Operand::Symbol(symbol) => {
                let mut variables = self.module.variables.iter();
                let variable = variables.find(|variable| variable.name == *symbol);
                variable.map_or(Any, |variable| inside(variable.space))
            }
            Operand::Number(word) if number(word).is_some_and(|n| n.unsigned_abs() <= GREATEST) => Constant,
            _ => Any,
        })
    }

    /// What is certain about the result of an instruction.
    fn computed(&self, instruction: &Instruction<'_>) -> Option<Value> {
        let read = &instruction.operands[instruction.written_operands()..];
        match (instruction.opcode, read) {
            (PATHS, read) => read.iter().map(|operand| self.value(operand)).fold(None, join),
            ("mov.b64" | "mov.u64" | "mov.s64", [from]) => self.value(from),
            ("selp.b64" | "selp.u64" | "selp.s64", [one, other, _]) => {
                join(self.value(one), self.value(other))
            }
            ("add.s64" | "add.u64" | "or.b64", [one, other]) => self
                .sum(one, other)
                .or_else(|| self.sum(other, one))
                .unwrap_or(Some(Any)),
            ("sub.s64" | "sub.u64", [from, number]) => self.sum(from, number).unwrap_or(Some(Any)),
            ("mad.lo.s64" | "mad.lo.u64" | "mad.wide.s32" | "mad.wide.u32", [one, other, to]) => {
                match self.is_from_space(one) {
                    true => Some(Any),
                    false => self.sum(to, other).unwrap_or(Some(Any)),
                }
            }
            (opcode, [from]) => match (conversion(opcode), self.value(from)) {
                (_, None) => None,
                (Ok(Some(Conversion::From(space))), Some(Inside(of))) if of == space => Some(Generic(space)),
                (Ok(Some(Conversion::To(space))), Some(Generic(of))) if of == space => Some(Inside(space)),
                _ => Some(Any),
            },
            _ => Some(Any),
        }
    }

    /// The sum of an address and a number. `None` if the first operand is no address.
    #[allow(clippy::option_option, reason = "a sum, about which nothing may be known yet")]
    fn sum(&self, address: &Operand<'_>, number: &Operand<'_>) -> Option<Option<Value>> {
        match self.value(address) {
            None => Some(None),
            Some(Inside(_) | Generic(_)) if self.is_from_space(number) => None,
            Some(value @ (Inside(_) | Generic(_))) => Some(Some(value)),
            _ => None,
        }
    }

    /// The instructions that do not agree with what LLVM believes.
    fn wrong(&self) -> Vec<Wrong<'b, 'a>> {
        const TO: &str = "gives no known value, if the operand is null or another address that lies outside the \
            space, and the verifier does not know that it lies inside";
        const FROM: &str =
            "gives another address, if the operand is null, and the verifier does not know that it is none";
        const ORDER: &str = "compares by order an address of a space with what may be null: null lies below \
            each address, but not in the space";
        let mut found = Vec::new();
        for (at, statement) in self.body.statements.iter().enumerate() {
            let Statement::Instruction(instruction) = statement else {
                continue;
            };
            let is = |value| instruction.operands.get(1).and_then(|from| self.value(from)) == Some(value);
            let reason = match conversion(instruction.opcode) {
                Err(()) => Some("is a conversion that the verifier does not know"),
                Ok(Some(Conversion::To(space))) => {
                    let is_right = is(Generic(space)) || self.is_by_hand(instruction);
                    (!is_right).then_some(TO)
                }
                Ok(Some(Conversion::From(space))) => {
                    (!is(Inside(space)) && !self.is_exact(at)).then_some(FROM)
                }
                // The sequence asks for the order of numbers.
                Ok(None) => (self.orders_null(instruction) && !self.is_exact(at + 2)).then_some(ORDER),
            };
            found.extend(reason.map(|reason| Wrong { instruction, reason }));
        }
        found
    }

    /// Whether the result is a register of inline assembly, which is `device-std`'s. LLVM believes
    /// nothing of it. LLVM's own registers begin with `%`.
    fn is_by_hand(&self, instruction: &Instruction<'_>) -> bool {
        matches!(instruction.operands.first(), Some(Operand::Name(name))
            if !self.body.names[name.0].0.starts_with('%'))
    }

    /// Whether the instruction asks for the order of an address of a space and another value.
    fn orders_null(&self, instruction: &Instruction<'_>) -> bool {
        let is_order = match base(instruction) {
            "setp" | "set" => !instruction
                .opcode
                .split('.')
                .any(|part| matches!(part, "eq" | "ne")),
            "min" | "max" => true,
            _ => false,
        };
        let compared = instruction.operands.get(1..3).unwrap_or_default();
        is_order
            && compared.iter().any(|operand| self.is_from_space(operand))
            && !compared
                .iter()
                .all(|operand| matches!(self.value(operand), Some(Inside(_))))
    }

    /// Whether the conversion at `at` belongs to the exact sequence, and nothing else reads it.
    fn is_exact(&self, at: usize) -> bool {
        let statements = &self.body.statements;
        let operands = |at: usize, opcode: &str| match statements.get(at)? {
            Statement::Instruction(instruction)
                if instruction.guard.is_none() && instruction.opcode == opcode =>
            {
                Some(instruction.operands.as_slice())
            }
            _ => None,
        };
        let sequence = || {
            let Statement::Instruction(instruction) = statements.get(at)? else {
                return None;
            };
            let Ok(Some(Conversion::From(_))) = conversion(instruction.opcode) else {
                return None;
            };
            let [converted, from @ Operand::Name(_)] = operands(at, instruction.opcode)? else {
                return None;
            };
            let [moved, of_moved, quarter] = operands(at.checked_sub(3)?, "add.s64")? else {
                return None;
            };
            let [is_constant, tested, zero] = operands(at - 2, "setp.ge.s64")? else {
                return None;
            };
            let [constant, of_constant, half] = operands(at - 1, "add.s64")? else {
                return None;
            };
            let [_, one, other, by] = operands(at + 1, "selp.b64")? else {
                return None;
            };
            let Operand::Name(name) = converted else {
                return None;
            };
            let is_number =
                |operand: &Operand<'_>, number: i64| *operand == Operand::Number(number.to_string());
            Some(
                (of_moved, of_constant) == (from, from)
                    && (tested, one, other, by) == (moved, constant, converted, is_constant)
                    && is_number(quarter, QUARTER)
                    && is_number(zero, 0)
                    && is_number(half, HALF)
                    && self.reads.get(name) == Some(&1),
            )
        };
        sequence() == Some(true)
    }

    /// What stands in place of a conversion.
    fn exact(&self, instruction: &Instruction<'_>) -> Option<String> {
        let [Operand::Name(to), from] = instruction.operands.as_slice() else {
            return None;
        };
        let to = &self.body.names[to.0].0;
        let word = match from {
            Operand::Name(from) => self.body.names[from.0].0.clone(),
            Operand::Number(word) => word.clone(),
            _ => return None,
        };
        if instruction.guard.is_some() {
            return None;
        }
        match (conversion(instruction.opcode), from) {
            (Ok(Some(Conversion::To(_))), _) if self.value(from) != Some(Constant) => None,
            (Ok(Some(Conversion::To(_))), Operand::Number(word)) => {
                Some(format!("mov.b64 {to}, {};", number(word)?.wrapping_add(HALF)))
            }
            (Ok(Some(Conversion::To(_))), _) => Some(format!("add.s64 {to}, {word}, {HALF};")),
            (Ok(Some(Conversion::From(_))), Operand::Name(_)) => Some(format!(
                "{{ .reg .pred %null_p; .reg .b64 %null_t, %null_n, %null_c; \
                 add.s64 %null_t, {word}, {QUARTER}; setp.ge.s64 %null_p, %null_t, 0; \
                 add.s64 %null_n, {word}, {HALF}; {} %null_c, {word}; \
                 selp.b64 {to}, %null_n, %null_c, %null_p; }}",
                instruction.opcode
            )),
            _ => None,
        }
    }
}

/// What two values have in common.
fn join(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    match (one, other) {
        (value, None) | (None, value) => value,
        (Some(one), Some(other)) => Some(if one == other { one } else { Any }),
    }
}

fn each(operands: &[Operand<'_>], f: &mut impl FnMut(Name)) {
    operands.iter().for_each(|operand| operand.each_name(f));
}

/// A whole number, as LLVM writes it.
fn number(word: &str) -> Option<i64> {
    word.parse().ok()
}

fn bodies<'b, 'a>(module: &'b Module<'a>) -> impl Iterator<Item = &'b Body<'a>> {
    module
        .functions
        .iter()
        .filter_map(|function| function.body.as_ref())
}

/// Writes exact instructions in place of conversions of constants. What it cannot rewrite stays,
/// and the proof refuses it.
///
/// # Errors
/// A text that the verifier cannot read.
pub(super) fn rewrite(ptx: &str) -> Result<String, Refusal> {
    let mut lines: HashMap<u32, String> = HashMap::new();
    for module in &super::modules(ptx)? {
        for body in bodies(module) {
            let values = Values::of(module, body);
            for Wrong { instruction, .. } in values.wrong() {
                lines.extend(values.exact(instruction).map(|exact| (instruction.line, exact)));
            }
        }
    }
    let mut out = String::with_capacity(ptx.len());
    for (number, line) in (1..).zip(ptx.split_inclusive('\n')) {
        let code = line.split("//").next().unwrap_or("").trim();
        let is_alone =
            code.matches(';').count() == 1 && code.ends_with(';') && !code.contains(['{', '}', ':']);
        match lines.get(&number) {
            Some(exact) if is_alone && !code.contains("/*") => {
                let base = code.split_whitespace().next().unwrap_or("");
                writeln!(out, "\t{exact} // {base}, of null too").expect("a write to a string does not fail");
            }
            _ => out.push_str(line),
        }
    }
    Ok(out)
}

/// Refuses a text in which null may become another address, or an address may become null.
///
/// # Errors
/// The first conversion, or comparison, that is not exact for null.
pub(super) fn check(module: &Module<'_>) -> Result<(), Refusal> {
    for body in bodies(module) {
        if let Some(Wrong { instruction, reason }) = Values::of(module, body).wrong().first() {
            return text(instruction.line, format!("`{}` {reason}", instruction.text));
        }
    }
    Ok(())
}
