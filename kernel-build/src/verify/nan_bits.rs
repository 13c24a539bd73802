//! The bits of NaNs: what LLVM believes of them must hold on the GPU.
//!
//! For LLVM, `fneg`, `fabs` and `copysign` change the sign bit of a NaN like the sign bit of a
//! number, a minimum of two negative operands is negative, and a conversion to another float keeps
//! the sign, also where they are NaNs. It drops checks of bounds by this. Counterexample:
//! `counts[(low.to_bits() >> 23) as usize - 256]` with `low = -value.abs()` has no check left. In
//! PTX, the result of `neg`, `abs`, `min`, `max` and `cvt` is any NaN (PTX ISA, chapter 9,
//! "Floating Point Instructions"): GPUs give 0x7fffffff.
//!
//! [`check`] refuses these instructions, if someone may look at the bits of the result. The bits
//! are *seen* if the result reaches an instruction that is not in the closed list here: through
//! copies, and through other instructions of this kind. The instructions of the list compute with
//! floats. LLVM believes nothing of the bits of a NaN that they return, and the bits of a NaN that
//! they take change nothing but these bits. So a text in which such results are not seen computes
//! what the same text with exact instructions may compute. docs/soundness.md, "What LLVM believes
//! of a NaN's bits", has the argument, and the list of what LLVM believes.
//!
//! [`rewrite`](super::exact_nans::rewrite) writes exact instructions where the bits are seen. For
//! `min` and `max`, exact instructions are a sequence ([`is_exact`]), and for `cvt` another
//! ([`Sequence`]).

use std::collections::{HashMap, HashSet};

use super::body::{Body, Instruction, Name, Operand, Statement};
use super::conversion::{self, Sequence};
use super::error::{Refusal, text};
use super::instruction::{PATHS, effect};
use super::parse::Module;

/// Prefix of the register in which `device-std` computes a minimum or a maximum (`float.rs`), in
/// inline assembly: LLVM believes nothing of the result. LLVM's own registers begin with `%`.
const ANY_NAN: &str = "cuda_rt_any_nan";

/// Instructions that compute with floats, or compare them. Here, `cvt` takes or gives integers.
const ARITHMETIC: &[&str] = &[
    "add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh",
    "cvt", "set", "setp", "testp",
];
/// Instructions of whose results LLVM believes sign bits, also of NaNs.
const SIGNED: &[&str] = &["neg", "abs", "copysign", "min", "max"];
const FLOATS: &[&str] = &["f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"];

/// What an instruction does with the bits of NaNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It looks at no bits of a NaN, and LLVM believes nothing of the bits of a NaN that it
    /// returns.
    Computes,
    /// It copies bits.
    Copies,
    /// LLVM believes the sign bits of its result, and PTX gives another NaN.
    Signs,
    /// It may look at all bits.
    Looks,
}

/// The type of the floats that an instruction takes: the last part of its name.
pub(super) fn float_type<'a>(instruction: &Instruction<'a>) -> Option<&'a str> {
    let last = instruction.opcode.rsplit('.').next()?;
    is_float(last).then_some(last)
}

/// Whether a part of an instruction's name is a type of floats.
pub(super) fn is_float(part: &str) -> bool {
    FLOATS.contains(&part)
}

/// The size of a float in bits. `None` for types of several floats.
pub(super) fn bits(float: &str) -> Option<u32> {
    match float {
        "f16" | "bf16" => Some(16),
        "f32" => Some(32),
        "f64" => Some(64),
        _ => None,
    }
}

/// Whether an operand is a constant float, and no NaN.
pub(super) fn is_number(operand: &Operand<'_>) -> bool {
    let Operand::Number(word) = operand else {
        return false;
    };
    let bits = |digits: &str| u64::from_str_radix(digits, 16).ok();
    match word.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0f") => bits(&word[2..]).is_some_and(|bits| bits & 0x7fff_ffff <= 0x7f80_0000),
        Some("0d") => bits(&word[2..]).is_some_and(|bits| bits & !(1 << 63) <= 0x7ff0 << 48),
        _ => false,
    }
}

/// Whether a minimum or a maximum is a NaN if one operand is.
pub(super) fn takes_nans(instruction: &Instruction<'_>) -> bool {
    instruction.opcode.split('.').any(|part| part == "NaN")
}

fn use_of(body: &Body<'_>, instruction: &Instruction<'_>) -> Use {
    let base = instruction.opcode.split('.').next().unwrap_or("");
    if matches!(base, PATHS | "mov" | "selp") {
        return Use::Copies;
    }
    if float_type(instruction).is_none() {
        return Use::Looks;
    }
    if conversion::is_of_floats(instruction) {
        let is_number = instruction.operands[1..].iter().all(is_number);
        return if is_number { Use::Computes } else { Use::Signs };
    }
    if ARITHMETIC.contains(&base) {
        return Use::Computes;
    }
    if !SIGNED.contains(&base) {
        return Use::Looks;
    }
    let has_any_nan = matches!(instruction.operands.first(), Some(Operand::Name(name))
        if body.names[name.0].0.starts_with(ANY_NAN));
    // A minimum with a number is no NaN.
    let is_number = matches!(base, "min" | "max")
        && !takes_nans(instruction)
        && instruction.operands[1..].iter().any(is_number);
    if has_any_nan || is_number {
        Use::Computes
    } else {
        Use::Signs
    }
}

/// The names whose bits may be seen.
struct Seen<'b, 'a> {
    body: &'b Body<'a>,
    names: HashSet<Name>,
}

impl<'b, 'a> Seen<'b, 'a> {
    /// The body has a name for each value (`definitions.rs`).
    fn in_body(body: &'b Body<'a>) -> Result<Self, Refusal> {
        // For each name, the names whose bits it may contain.
        let mut from: HashMap<Name, Vec<Name>> = HashMap::new();
        let mut open: Vec<Name> = Vec::new();
        for instruction in body.instructions() {
            let Ok(effect) = effect(instruction) else {
                return text(instruction.line, "the verifier does not know the instruction");
            };
            let (written, read) = instruction.split(effect);
            let each = |operands: &[Operand<'_>], f: &mut dyn FnMut(Name)| {
                operands
                    .iter()
                    .for_each(|operand| operand.each_name(&mut |name| f(name)));
            };
            match use_of(body, instruction) {
                Use::Computes => {}
                Use::Looks => each(read, &mut |name| open.push(name)),
                Use::Copies | Use::Signs => each(written, &mut |to| {
                    each(read, &mut |name| from.entry(to).or_default().push(name));
                }),
            }
        }
        let mut names = HashSet::new();
        while let Some(name) = open.pop() {
            if names.insert(name) {
                open.extend(from.get(&name).into_iter().flatten());
            }
        }
        Ok(Self { body, names })
    }

    /// Whether LLVM may believe bits of the result that the GPU does not give, and that are seen.
    fn needs_exact(&self, instruction: &Instruction<'_>) -> bool {
        let mut is_seen = false;
        let written = instruction.operands.first().into_iter();
        written.for_each(|operand| operand.each_name(&mut |name| is_seen |= self.names.contains(&name)));
        is_seen && use_of(self.body, instruction) == Use::Signs
    }
}

/// The instructions of a body that must be exact for NaNs, and are not.
///
/// # Errors
/// An instruction that the verifier does not know.
pub(super) fn inexact<'b, 'a>(body: &'b Body<'a>) -> Result<Vec<&'b Instruction<'a>>, Refusal> {
    let seen = Seen::in_body(body)?;
    let mut reads: HashMap<Name, usize> = HashMap::new();
    for instruction in body.instructions() {
        for operand in &instruction.operands[instruction.written_operands()..] {
            operand.each_name(&mut |name| *reads.entry(name).or_default() += 1);
        }
    }
    let mut found = Vec::new();
    for (at, statement) in body.statements.iter().enumerate() {
        if let Statement::Instruction(instruction) = statement
            && seen.needs_exact(instruction)
            && !is_exact(&body.statements, at, &reads)
            && !Sequence::is_at(&body.statements, at, &reads)
        {
            found.push(instruction);
        }
    }
    Ok(found)
}

/// The operands of an instruction, if it has this name and no predicate.
fn operands<'s, 'a>(statement: Option<&'s Statement<'a>>, opcode: &str) -> Option<&'s [Operand<'a>]> {
    match statement? {
        Statement::Instruction(instruction)
            if instruction.guard.is_none() && instruction.opcode == opcode =>
        {
            Some(&instruction.operands)
        }
        _ => None,
    }
}

/// Whether the minimum or the maximum at `at` belongs to a sequence that gives the bits of an
/// operand in place of a NaN:
///
/// ```text
/// min.f32 t, a, b;
/// setp.nan.f32 p, t, t;
/// selp.b32 d, a, t, p;
/// ```
///
/// If the result is a NaN, both operands are, so `a` is one. With `.NaN`, one operand may be a
/// number. Then `setp.nan.f32 q, a, a; selp.b32 s, a, b, q;` stand before, and `s` takes the place
/// of `a` behind; or the other operand is a constant. Nothing else reads `t`.
fn is_exact(statements: &[Statement<'_>], at: usize, reads: &HashMap<Name, usize>) -> bool {
    let sequence = || {
        let Statement::Instruction(instruction) = &statements[at] else {
            return None;
        };
        let (base, float) = (instruction.opcode.split('.').next()?, float_type(instruction)?);
        let is_simple = matches!(base, "min" | "max") && instruction.guard.is_none();
        let [Operand::Name(result), a, b] = instruction.operands.as_slice() else {
            return None;
        };
        let (test, choice) = (format!("setp.nan.{float}"), format!("selp.b{}", bits(float)?));
        let [Operand::Name(is_nan), one, other] = operands(statements.get(at + 1), &test)? else {
            return None;
        };
        let [_, nan, number, by] = operands(statements.get(at + 2), &choice)? else {
            return None;
        };
        let tests = [one, other, number]
            .into_iter()
            .all(|operand| *operand == Operand::Name(*result));
        let is_chosen = tests && *by == Operand::Name(*is_nan) && reads.get(result) == Some(&3);
        let is_nan_of = |nan: &Operand<'_>| {
            if !takes_nans(instruction) {
                return [a, b].contains(&nan);
            }
            let before = || {
                let [Operand::Name(p), one, other] = operands(statements.get(at.checked_sub(2)?), &test)?
                else {
                    return None;
                };
                let [chosen, first, second, by] = operands(statements.get(at - 1), &choice)? else {
                    return None;
                };
                let is_test = [one, other, first].into_iter().all(|operand| operand == a);
                Some(is_test && second == b && *by == Operand::Name(*p) && chosen == nan)
            };
            is_number(b) && nan == a || before() == Some(true)
        };
        Some(is_simple && is_chosen && matches!(nan, Operand::Name(_)) && is_nan_of(nan))
    };
    sequence() == Some(true)
}

/// Refuses a text with an instruction of whose result LLVM believes more bits than the GPU keeps,
/// if someone may look at these bits.
pub(super) fn check(module: &Module<'_>) -> Result<(), Refusal> {
    for body in module
        .functions
        .iter()
        .filter_map(|function| function.body.as_ref())
    {
        if let Some(instruction) = inexact(body)?.first() {
            return text(
                instruction.line,
                format!(
                    "`{}` gives any NaN, and something may look at its bits, of which LLVM believes the sign",
                    instruction.text
                ),
            );
        }
    }
    Ok(())
}
