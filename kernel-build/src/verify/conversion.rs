//! Conversions of floats to floats, which LLVM believes to keep the sign of a NaN.
//!
//! `InstCombine` takes the sign of `y` for the sign of `y as f32`. The selection of instructions
//! takes it for the sign that `copysign` gets from `y as f32`. Counterexample: a branch asks the
//! sign of `y as f32`, and an index in it is computed from the bits of `-(y as f32)`. In the PTX,
//! the branch asks the sign of `y`, and the index has no check. In PTX, the result of `cvt` is any
//! NaN. Roundings to a whole number are conversions too: LLVM takes the floor of an `f64` for the
//! floor of an `f32`.
//!
//! A conversion keeps the sign of each number, zeros and what becomes zero included. So the
//! [`Sequence`] here puts the source's sign over each result, NaN or not.

use std::collections::HashMap;

use super::body::{Body, Instruction, Name, Operand, Statement};
use super::nan_bits::{bits, float_type, is_float, is_number};

/// A register of a sequence: a letter, and a number among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Register {
    /// The result of the conversion, as the whole sequence gives it.
    Result,
    /// A float that is converted. Of two floats, the first goes to the result's upper half.
    Source(usize),
    /// What the instruction `cvt` gives.
    Converted,
    /// The source's sign, in the place of the result's, with other bits and alone.
    High,
    Sign,
    /// The result without its sign.
    Rest,
    /// The parts of a source below the part with the sign, and this part of each of two sources.
    Low(usize),
    Top(usize),
}
use Register::{Converted, High, Low, Rest, Result, Sign, Source, Top};

#[derive(Debug)]
enum Part {
    Register(Register),
    List(Vec<Register>),
    Number(i64),
}

/// A conversion, and instructions behind it that put the source's sign over the result:
///
/// ```text
/// cvt.f32.f16 t, a;
/// mov.b32 w, {a, a};
/// and.b32 s, w, 0x80000000;
/// and.b32 m, t, 0x7fffffff;
/// or.b32 d, s, m;
/// ```
#[derive(Debug)]
pub(super) struct Sequence {
    /// The names of the instructions behind the conversion, each with its operands.
    behind: Vec<(String, Vec<Part>)>,
    /// The size of each register that the sequence declares.
    sizes: Vec<(Register, u32)>,
}

/// Whether an instruction converts floats to floats.
pub(super) fn is_of_floats(instruction: &Instruction<'_>) -> bool {
    instruction.opcode.starts_with("cvt.")
        && float_type(instruction).is_some()
        && instruction.opcode.rsplit('.').nth(1).is_some_and(is_float)
}

impl Sequence {
    /// The sequence of a conversion. `None` for a form that cannot be rewritten: `.sat`, which does
    /// not keep the sign of a number.
    fn of(instruction: &Instruction<'_>) -> Option<Self> {
        let mut types = instruction.opcode.rsplit('.');
        let (from, to) = (types.next()?, types.next()?);
        if !is_of_floats(instruction) || instruction.opcode.split('.').any(|part| part == "sat") {
            return None;
        }
        let from_bits = bits(from)?;
        let (to_bits, sign) = match to {
            "f16x2" | "bf16x2" => (32, i64::from(0x8000_8000_u32.cast_signed())),
            _ => (bits(to)?, i64::MIN >> (64 - bits(to)?)),
        };
        let one = Part::Register;
        let (mut behind, mut sizes) = (Vec::new(), vec![(Converted, to_bits)]);
        let mut declare = |register, size| {
            sizes.push((register, size));
            register
        };
        let high = match (instruction.operands.len(), bits(to)) {
            (2, Some(_)) if from_bits == to_bits => Source(0),
            (2, Some(_)) if from_bits > to_bits => {
                let count = (from_bits / to_bits) as usize;
                let low = (0..count - 1).map(|at| declare(Low(at), to_bits));
                let mut parts: Vec<Register> = low.collect();
                parts.push(declare(High, to_bits));
                behind.push((
                    format!("mov.b{from_bits}"),
                    vec![Part::List(parts), one(Source(0))],
                ));
                High
            }
            (2, Some(_)) => {
                let parts = vec![Source(0); (to_bits / from_bits) as usize];
                let high = declare(High, to_bits);
                behind.push((format!("mov.b{to_bits}"), vec![one(high), Part::List(parts)]));
                high
            }
            (3, None) if from_bits == 32 => {
                for at in 0..2 {
                    let parts = vec![declare(Low(at), 16), declare(Top(at), 16)];
                    behind.push(("mov.b32".to_owned(), vec![Part::List(parts), one(Source(at))]));
                }
                let high = declare(High, 32);
                behind.push((
                    "mov.b32".to_owned(),
                    vec![one(high), Part::List(vec![Top(1), Top(0)])],
                ));
                high
            }
            _ => return None,
        };
        let (alone, rest) = (declare(Sign, to_bits), declare(Rest, to_bits));
        let and = format!("and.b{to_bits}");
        behind.push((and.clone(), vec![one(alone), one(high), Part::Number(sign)]));
        behind.push((and, vec![one(rest), one(Converted), Part::Number(!sign)]));
        behind.push((format!("or.b{to_bits}"), vec![one(Result), one(alone), one(rest)]));
        Some(Self { behind, sizes })
    }

    /// Whether the statements behind a conversion are the sequence, and nothing else reads what the
    /// conversion gives.
    pub(super) fn is_at(statements: &[Statement<'_>], at: usize, reads: &HashMap<Name, usize>) -> bool {
        let matched = || {
            let Statement::Instruction(conversion) = &statements[at] else {
                return None;
            };
            let sequence = Self::of(conversion)?;
            let mut names = HashMap::new();
            for (register, operand) in [Converted, Source(0), Source(1)].iter().zip(&conversion.operands) {
                let Operand::Name(name) = operand else {
                    return None;
                };
                names.insert(*register, *name);
            }
            let is_read_once = reads.get(names.get(&Converted)?) == Some(&1);
            let mut is = |register: Register, operand: &Operand<'_>| {
                let Operand::Name(name) = operand else {
                    return false;
                };
                *names.entry(register).or_insert(*name) == *name
            };
            for (statement, (opcode, parts)) in statements.get(at + 1..)?.iter().zip(&sequence.behind) {
                let Statement::Instruction(instruction) = statement else {
                    return None;
                };
                let is_equal = |(operand, part): (&Operand<'_>, &Part)| match (operand, part) {
                    (Operand::List(operands), Part::List(registers)) => {
                        operands.len() == registers.len()
                            && registers
                                .iter()
                                .zip(operands)
                                .all(|(register, operand)| is(*register, operand))
                    }
                    (Operand::Number(word), Part::Number(number)) => *word == number.to_string(),
                    (operand, Part::Register(register)) => is(*register, operand),
                    _ => false,
                };
                if instruction.guard.is_some()
                    || instruction.opcode != opcode
                    || instruction.operands.len() != parts.len()
                    || !instruction.operands.iter().zip(parts).all(is_equal)
                {
                    return None;
                }
            }
            let is_whole = statements.len() > at + sequence.behind.len();
            Some(conversion.guard.is_none() && is_whole && is_read_once)
        };
        matched() == Some(true)
    }

    /// The text of the sequence, in a scope of its own.
    pub(super) fn written(body: &Body<'_>, instruction: &Instruction<'_>) -> Option<String> {
        let sequence = Self::of(instruction)?;
        let mut declared = String::new();
        for (register, size) in &sequence.sizes {
            declared += &format!(".reg .b{size} {}; ", local(*register));
        }
        let mut constants = String::new();
        let mut names: Vec<String> = Vec::new();
        for (at, operand) in instruction.operands.iter().enumerate() {
            names.push(match operand {
                Operand::Name(name) => body.names[name.0].0.clone(),
                Operand::Number(word) if is_number(operand) && at > 0 => {
                    let name = format!("%exact_c{at}");
                    declared += &format!(".reg .b32 {name}; ");
                    constants += &format!("mov.b32 {name}, {word}; ");
                    name
                }
                _ => return None,
            });
        }
        let name = |register: &Register| match register {
            Result => names[0].clone(),
            Source(at) => names[at + 1].clone(),
            register => local(*register),
        };
        let mut text = format!(
            "{{ {declared}{constants}{} {}, {};",
            instruction.opcode,
            local(Converted),
            names[1..].join(", ")
        );
        for (opcode, parts) in &sequence.behind {
            let parts: Vec<String> = parts
                .iter()
                .map(|part| match part {
                    Part::Register(register) => name(register),
                    Part::List(registers) => {
                        let registers: Vec<String> = registers.iter().map(name).collect();
                        format!("{{{}}}", registers.join(", "))
                    }
                    Part::Number(number) => number.to_string(),
                })
                .collect();
            text += &format!(" {opcode} {};", parts.join(", "));
        }
        Some(format!("{text} }}"))
    }
}

/// The name of a register that the sequence declares.
fn local(register: Register) -> String {
    match register {
        Result => "%exact_d".to_owned(),
        Source(at) => format!("%exact_a{at}"),
        Converted => "%exact_t".to_owned(),
        High => "%exact_w".to_owned(),
        Sign => "%exact_s".to_owned(),
        Rest => "%exact_m".to_owned(),
        Low(at) => format!("%exact_l{at}"),
        Top(at) => format!("%exact_h{at}"),
    }
}
