//! Products of twice the size, of which LLVM may mean the other sign.
//!
//! LLVM's code for GPUs takes a shift by `k` before a conversion to twice the size, that loses no
//! bit, for a product with 2^k: `mul.wide`. A shift by 31 of an `i32`, and one by 15 of an `i16`,
//! it takes for products with 2^31 and 2^15, which are negative as factors of this size. So `(x <<
//! 31) as i64` of `x = -1` is 2^31 on the GPU, and the check of an index that follows from its sign
//! is gone (LLVM 22; fixed by <https://github.com/llvm/llvm-project/pull/200924>). As unsigned
//! factors, all these numbers are right, and so are the smaller ones.
//!
//! [`check`] refuses the products with these factors. The text does not say which of them a program
//! asks for.

use std::collections::{HashMap, HashSet};

use super::body::{Body, Instruction, Name, Operand};
use super::error::{Refusal, text};
use super::instruction::PATHS;
use super::parse::Module;

/// The bits of a number, of at most 64. `None` for what is no number.
fn bits(word: &str) -> Option<u64> {
    let (sign, digits) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    let digits = digits.to_ascii_lowercase();
    if let Some(float) = digits.strip_prefix("0f") {
        return u64::from_str_radix(float, 16).ok();
    }
    let digits = digits.trim_end_matches('u');
    let value = match (digits.get(..2), digits) {
        (Some("0x"), digits) => u64::from_str_radix(&digits[2..], 16),
        (_, digits) => digits.parse(),
    };
    value
        .ok()
        .map(|value| if sign { value.wrapping_neg() } else { value })
}

/// The size of the factors of a product of twice their size, if they have signs.
fn size(instruction: &Instruction<'_>) -> Option<u32> {
    match instruction.opcode {
        "mul.wide.s16" | "mad.wide.s16" => Some(16),
        "mul.wide.s32" | "mad.wide.s32" => Some(32),
        _ => None,
    }
}

/// Whether an operand may be the least number of a size, by copies of constants.
fn may_be_least(writers: &HashMap<Name, &Instruction<'_>>, operand: &Operand<'_>, size: u32) -> bool {
    let mut open = vec![operand];
    let mut seen = HashSet::new();
    while let Some(operand) = open.pop() {
        match operand {
            Operand::Number(word) => {
                // A number that cannot be read may be any.
                let is_least = |bits: u64| bits << (64 - size) == 1 << 63;
                if bits(word).is_none_or(is_least) {
                    return true;
                }
            }
            Operand::Name(name) if seen.insert(*name) => {
                if let Some(writer) = writers.get(name)
                    && matches!(writer.opcode.split('.').next(), Some("mov" | PATHS))
                {
                    open.extend(&writer.operands[1..]);
                }
            }
            Operand::List(list) => open.extend(list),
            _ => {}
        }
    }
    false
}

fn check_body(body: &Body<'_>) -> Result<(), Refusal> {
    let mut writers = HashMap::new();
    for instruction in body.instructions() {
        for operand in &instruction.operands[..instruction.written_operands()] {
            operand.each_name(&mut |name| {
                writers.insert(name, instruction);
            });
        }
    }
    for instruction in body.instructions() {
        let Some(size) = size(instruction) else { continue };
        let factors = instruction.operands.get(1..3).unwrap_or_default();
        if factors.iter().any(|factor| may_be_least(&writers, factor, size)) {
            let (shift, double) = (size - 1, 2 * size);
            return text(
                instruction.line,
                format!(
                    "`{}` multiplies by -2^{shift}, which LLVM writes with the wrong sign for \
                     `(x << {shift}) as i{double}`: write `(x as i{double}) << {shift}`, and \
                     `-((x as i{double}) << {shift})` for a product with `i{size}::MIN`",
                    instruction.text
                ),
            );
        }
    }
    Ok(())
}

/// Refuses products of twice the size with -2^31 and -2^15.
pub(super) fn check(module: &Module<'_>) -> Result<(), Refusal> {
    let bodies = module
        .functions
        .iter()
        .filter_map(|function| function.body.as_ref());
    bodies.into_iter().try_for_each(check_body)
}
