//! Writes instructions that are exact for NaNs in place of `neg`, `abs`, `copysign`, `min`, `max`
//! and conversions of floats to floats, where the bits of the result may be seen (`nan_bits.rs`).
//!
//! `neg` and `abs` change one bit, so `xor` and `and` do the same, for numbers too: zeros,
//! infinities and subnormal numbers keep all other bits. A form with `.ftz`, which flushes
//! subnormal numbers, is no change of one bit; the verifier refuses it. A minimum stays the GPU's
//! own. Behind it, the bits of an operand take the place of a NaN. A conversion stays too, and the
//! source's sign takes the place of the result's (`conversion.rs`).

use std::collections::HashMap;
use std::fmt::Write as _;

use super::body::{Body, Instruction, Operand};
use super::conversion::Sequence;
use super::error::Refusal;
use super::nan_bits::{bits, float_type, inexact, is_number, takes_nans};

/// Writes exact instructions. What it cannot rewrite stays, and the proof refuses it: an
/// instruction under a predicate, a line with several instructions, or a part of a name that is
/// not known here.
///
/// # Errors
/// A text that the verifier cannot read.
pub(super) fn rewrite(ptx: &str) -> Result<String, Refusal> {
    let mut lines: HashMap<u32, String> = HashMap::new();
    for module in super::modules(ptx)? {
        for body in module
            .functions
            .iter()
            .filter_map(|function| function.body.as_ref())
        {
            for instruction in inexact(body)? {
                if let Some(exact) = exact(body, instruction) {
                    lines.insert(instruction.line, exact);
                }
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
                writeln!(out, "\t{exact} // {base}, of NaNs too").expect("a write to a string does not fail");
            }
            _ => out.push_str(line),
        }
    }
    Ok(out)
}

/// An operand as the text writes it; a constant float as its bits.
fn written(body: &Body<'_>, operand: &Operand<'_>) -> Option<String> {
    match operand {
        Operand::Name(name) => Some(body.names[name.0].0.clone()),
        Operand::Number(word) if is_number(operand) => Some(format!("0x{}", &word[2..])),
        _ => None,
    }
}

fn exact(body: &Body<'_>, instruction: &Instruction<'_>) -> Option<String> {
    let float = float_type(instruction)?;
    let base = instruction.opcode.split('.').next()?;
    if instruction.guard.is_some() {
        return None;
    }
    if base == "cvt" {
        return Sequence::written(body, instruction);
    }
    let operands: Option<Vec<String>> = instruction
        .operands
        .iter()
        .map(|operand| written(body, operand))
        .collect();
    let operands = operands?;
    if matches!(base, "min" | "max") {
        let numbers: Vec<bool> = instruction.operands.iter().map(is_number).collect();
        let minimum = Minimum {
            opcode: instruction.opcode,
            takes_nans: takes_nans(instruction),
        };
        return minimum.any(float, &operands, &numbers);
    }
    // A form with another part, such as `.ftz`, changes more than the sign.
    if instruction.opcode != format!("{base}.{float}") {
        return None;
    }
    let (size, sign) = match float {
        "f16x2" | "bf16x2" => (32, 0x8000_8000_u32.cast_signed().into()),
        "f16" | "bf16" => (16, i16::MIN.into()),
        "f32" => (32, i32::MIN.into()),
        "f64" => (64, i64::MIN),
        // PTX has none of the three for `f32x2`.
        _ => return None,
    };
    let others = !sign;
    match (base, operands.as_slice()) {
        ("neg", [to, from]) => Some(format!("xor.b{size} {to}, {from}, {sign};")),
        ("abs", [to, from]) => Some(format!("and.b{size} {to}, {from}, {others};")),
        ("copysign", [to, of, from]) => Some(format!(
            "{{ .reg .b{size} %exact_s, %exact_m; and.b{size} %exact_s, {of}, {sign}; and.b{size} %exact_m, {from}, {others}; or.b{size} {to}, %exact_s, %exact_m; }}"
        )),
        _ => None,
    }
}

/// A minimum or a maximum.
struct Minimum<'a> {
    opcode: &'a str,
    takes_nans: bool,
}

impl Minimum<'_> {
    /// The sequence for two or three operands of any type. `numbers` says which of the operands,
    /// of which the first is the result, are constants.
    fn any(&self, float: &str, operands: &[String], numbers: &[bool]) -> Option<String> {
        match (float, operands, numbers) {
            ("f16" | "f32" | "f64", [to, a, b], [_, one, other]) => {
                Some(self.two(self.opcode, float, to, [(a, *one), (b, *other)]))
            }
            ("f32", [to, a, b, c], [_, false, false, false]) => {
                let first = self.two(self.opcode, float, "%exact_m", [(a, false), (b, false)]);
                let second = self.two(self.opcode, float, to, [("%exact_m", false), (c, false)]);
                Some(format!("{{ .reg .b32 %exact_m; {first} {second} }}"))
            }
            ("f16x2", [to, a, b], _) => {
                let opcode = self.opcode.strip_suffix("x2")?;
                let half = |at: u32| {
                    let [to, a, b] = ["d", "a", "b"].map(|name| format!("%exact_{name}{at}"));
                    self.two(opcode, "f16", &to, [(&a, false), (&b, false)])
                };
                Some(format!(
                    "{{ .reg .b16 %exact_a0, %exact_a1, %exact_b0, %exact_b1, %exact_d0, %exact_d1; \
                     mov.b32 {{%exact_a0, %exact_a1}}, {a}; mov.b32 {{%exact_b0, %exact_b1}}, {b}; {} {} \
                     mov.b32 {to}, {{%exact_d0, %exact_d1}}; }}",
                    half(0),
                    half(1)
                ))
            }
            _ => None,
        }
    }

    /// The sequence for two floats, each with whether it is a constant (`is_exact` in
    /// `nan_bits.rs`).
    fn two(
        &self,
        opcode: &str,
        float: &str,
        to: &str,
        [(a, a_is_number), (b, b_is_number)]: [(&str, bool); 2],
    ) -> String {
        let size = bits(float).unwrap_or(32);
        // The second operand may be a constant, and the first is none.
        let (a, b, b_is_number) = if a_is_number {
            (b, a, true)
        } else {
            (a, b, b_is_number)
        };
        let constant = b.strip_prefix("0x").filter(|_| b_is_number);
        let prefix = if float == "f64" { "0d" } else { "0f" };
        let b_as_float = constant.map_or_else(|| b.to_owned(), |digits| format!("{prefix}{digits}"));
        if b_is_number && !self.takes_nans {
            return format!("{opcode} {to}, {a}, {b_as_float};");
        }
        let (before, nan) = if self.takes_nans && !b_is_number {
            let before =
                format!("setp.nan.{float} %exact_q, {a}, {a}; selp.b{size} %exact_s, {a}, {b}, %exact_q; ");
            (before, "%exact_s")
        } else {
            (String::new(), a)
        };
        format!(
            "{{ .reg .pred %exact_p, %exact_q; .reg .b{size} %exact_t, %exact_s; {before}{opcode} %exact_t, {a}, {b_as_float}; \
             setp.nan.{float} %exact_p, %exact_t, %exact_t; selp.b{size} {to}, {nan}, %exact_t, %exact_p; }}"
        )
    }
}
