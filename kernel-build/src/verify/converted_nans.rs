//! Tests of `conversion.rs`.

use std::collections::HashMap;

use super::refused::{OWN, Text};
use super::{provable, verify};

const ANY_NAN: &str = "gives any NaN";

/// A type of floats: its name, its bits, the bits of its mantissa.
type Float = (&'static str, u32, u32);
const FLOATS: [Float; 4] = [("f16", 16, 10), ("bf16", 16, 7), ("f32", 32, 23), ("f64", 64, 52)];

/// A kernel that converts `%x5` to `%x1`, and stores the result. The letter says the size.
fn converting(instruction: &str, result: (&str, u32)) -> Text {
    Text::of(format!(
        ".reg .b16 %h<9>;\n{OWN}mov.b16 %h5, 1;\nmov.b32 %r6, 7;\nmov.b64 %rd5, 1;\n{instruction}\nst.local.b{} [depot], {};",
        result.1, result.0
    ))
}

fn register(bits: u32, number: u32) -> String {
    let prefix = match bits {
        16 => "%h",
        32 => "%r",
        _ => "%rd",
    };
    format!("{prefix}{number}")
}

/// The forms of a conversion.
fn forms(from: Float, to: Float) -> &'static [&'static str] {
    match (from == to, from.1 >= to.1) {
        (true, _) => &["rni.", "rmi.ftz.", "rpi.", "rzi."],
        (_, true) => &["rn.", "rz.ftz."],
        _ => &["", "ftz."],
    }
}

/// The line that `kernel-build` writes for a conversion.
fn line(text: &Text) -> String {
    text.refused(ANY_NAN);
    let written = provable(text.ptx()).unwrap();
    if let Err(refusal) = verify(&written) {
        panic!("{written}\n{refusal}");
    }
    let line = written.lines().find(|line| line.contains("%exact_t"));
    line.unwrap_or_else(|| panic!("{written}")).to_owned()
}

fn ones(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

fn is_nan(value: u64, (_, bits, mantissa): Float) -> bool {
    value & ones(bits - 1) > ones(bits - 1) & !ones(mantissa)
}

/// A conversion of numbers of few bits, and the GPU's NaN.
fn converted(value: u64, from: Float, to: Float) -> u64 {
    if is_nan(value, from) {
        return ones(to.1 - 1);
    }
    let sign = value >> (from.1 - 1) << (to.1 - 1);
    let magnitude = value & ones(from.1 - 1);
    let bias = |(_, bits, mantissa): Float| (1i64 << (bits - mantissa - 2)) - 1;
    let (exponent, top) = ((magnitude >> from.2).cast_signed(), ones(from.1 - from.2 - 1));
    if magnitude == 0 || exponent == 0 {
        // What is subnormal counts as zero, as with `.ftz`.
        return sign;
    }
    let (exponent, most) = (exponent - bias(from) + bias(to), ones(to.1 - to.2 - 1));
    if (magnitude >> from.2) == top || exponent >= most.cast_signed() {
        return sign | most << to.2;
    }
    if exponent <= 0 {
        return sign;
    }
    let mantissa = (magnitude & ones(from.2)) << (52 - from.2) >> (52 - to.2);
    sign | exponent.cast_unsigned() << to.2 | mantissa
}

/// Runs a written line. The value of each register, and its size.
fn run(line: &str, inputs: &[(&str, u64)], mut convert: impl FnMut(&[u64]) -> u64) -> HashMap<String, u64> {
    let mut values: HashMap<String, u64> = inputs.iter().map(|(name, v)| ((*name).to_owned(), *v)).collect();
    let code = line.split("//").next().unwrap().trim();
    let code = code.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    for instruction in code.split(';').map(str::trim).filter(|one| !one.is_empty()) {
        let (opcode, operands) = instruction.split_once(' ').unwrap();
        let size = opcode.rsplit(".b").next().unwrap().parse::<u32>().unwrap_or(0);
        if opcode == ".reg" {
            continue;
        }
        // A list counts as one operand.
        let mut depth = 0;
        let parts: Vec<&str> = operands
            .split(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == ',' && depth == 0
            })
            .map(str::trim)
            .collect();
        let list = |part: &str| -> Option<Vec<String>> {
            let names = part.strip_prefix('{')?.strip_suffix('}')?;
            Some(names.split(',').map(|name| name.trim().to_owned()).collect())
        };
        let value = |part: &str| match list(part) {
            Some(names) => {
                let each = size / u32::try_from(names.len()).unwrap();
                let shifted = names.iter().rev().fold(0, |all, name| all << each | values[name]);
                shifted & ones(size)
            }
            None if part.starts_with("0f") => u64::from_str_radix(&part[2..], 16).unwrap(),
            None if part.starts_with('%') => values[part],
            None => part.parse::<i64>().unwrap().cast_unsigned() & ones(size),
        };
        let read: Vec<u64> = parts[1..].iter().map(|part| value(part)).collect();
        let result = match opcode.split('.').next().unwrap() {
            "mov" => read[0],
            "and" => read[0] & read[1],
            "or" => read[0] | read[1],
            "cvt" => convert(&read),
            _ => panic!("{instruction}"),
        };
        match list(parts[0]) {
            Some(names) => {
                let each = size / u32::try_from(names.len()).unwrap();
                for (at, name) in (0..).zip(names) {
                    values.insert(name, result >> (at * each) & ones(each));
                }
            }
            None => {
                values.insert(parts[0].to_owned(), result);
            }
        }
    }
    values
}

/// NaNs, infinities, zeros, subnormal and other numbers, of both signs.
fn values((_, bits, mantissa): Float) -> Vec<u64> {
    let infinity = ones(bits - 1) & !ones(mantissa);
    let one = infinity >> 1 & infinity;
    let positive = [
        0,
        1,
        ones(mantissa),
        one,
        one | 3 << (mantissa - 2),
        infinity - 1,
        infinity,
    ];
    let nans = [
        infinity + 1,
        infinity | 1 << (mantissa - 1),
        infinity | ones(mantissa),
    ];
    let all = positive.iter().chain(&nans);
    all.flat_map(|value| [*value, value | 1 << (bits - 1)]).collect()
}

#[test]
fn a_conversion_gives_a_nan_the_sign_of_its_source() {
    let mut pairs = 0;
    for from in FLOATS {
        for to in FLOATS {
            for form in forms(from, to) {
                let (result, source) = (register(to.1, 1), register(from.1, 5));
                let instruction = format!("cvt.{form}{}.{} {result}, {source};", to.0, from.0);
                let line = line(&converting(&instruction, (&result, to.1)));
                for value in values(from) {
                    let plain = converted(value, from, to);
                    let found = run(&line, &[(&source, value)], |read| {
                        assert_eq!(read, [value]);
                        plain
                    })[&result];
                    let sign = value >> (from.1 - 1);
                    assert_eq!(found >> (to.1 - 1), sign, "{value:x}: {line}");
                    assert_eq!(is_nan(found, to), is_nan(value, from), "{value:x}: {line}");
                    if !is_nan(value, from) {
                        assert_eq!(found, plain, "{value:x}: {line}");
                    }
                }
                pairs += 1;
            }
        }
    }
    assert_eq!(pairs, 40);
}

/// The first source goes to the upper half.
#[test]
fn a_conversion_of_two_floats_gives_each_nan_the_sign_of_its_source() {
    for to in [FLOATS[0], FLOATS[1]] {
        for [a, b] in [["%r5", "%r6"], ["0fBF800000", "%r6"], ["%r5", "0f80000000"]] {
            let instruction = format!("cvt.rn.{}x2.f32 %r1, {a}, {b};", to.0);
            let line = line(&converting(&instruction, ("%r1", 32)));
            for high in values(FLOATS[2]) {
                for low in values(FLOATS[2]) {
                    let half = |value| converted(value, FLOATS[2], to);
                    let mut sources = [0; 2];
                    let found = run(&line, &[("%r5", high), ("%r6", low)], |read| {
                        sources = [read[0], read[1]];
                        half(read[0]) << 16 | half(read[1])
                    })["%r1"];
                    for (found, source) in [found >> 16, found & 0xffff].into_iter().zip(sources) {
                        assert_eq!(found >> 15, source >> 31, "{high:x} {low:x}: {line}");
                        assert_eq!(found & 0x7fff, half(source) & 0x7fff, "{high:x} {low:x}: {line}");
                    }
                }
            }
        }
    }
}

/// The sign of the source is seen as well, through more than one conversion.
#[test]
fn a_source_whose_sign_is_kept_is_exact_too() {
    let text = converting(
        "neg.f32 %r2, %r6;\ncvt.f64.f32 %rd2, %r2;\ncvt.rmi.f64.f64 %rd1, %rd2;",
        ("%rd1", 64),
    );
    let written = provable(text.ptx()).unwrap();
    assert!(written.contains("xor.b32 %r2, %r6, -2147483648;"), "{written}");
    assert!(written.contains("mov.b64 %exact_w, {%r2, %r2};"), "{written}");
    assert!(
        written.contains("and.b64 %exact_s, %rd2, -9223372036854775808;"),
        "{written}"
    );
    let refusal = verify(&written.replace("xor.b32 %r2, %r6, -2147483648;", "neg.f32 %r2, %r6;"));
    assert!(
        refusal
            .unwrap_err()
            .to_string()
            .contains("`neg.f32 %r2, %r6` gives any NaN")
    );
}

#[test]
fn a_conversion_whose_bits_are_not_seen_stays_as_it_is() {
    for after in [
        "cvt.f64.f32 %rd2, %r6;\nadd.rn.f64 %rd1, %rd2, %rd2;",
        "cvt.f64.f32 %rd2, %r6;\nsetp.lt.f64 %p1, %rd2, %rd5;\nselp.b64 %rd1, %rd5, 1, %p1;",
        "cvt.f64.f32 %rd2, %r6;\ncvt.rzi.s64.f64 %rd1, %rd2;",
        "cvt.rn.f64.s32 %rd1, %r6;",
        "cvt.f64.f32 %rd1, 0fBF800000;",
        "cvt.rn.f32.f64 %r2, %rd5;\ncvt.rpi.f32.f32 %r3, %r2;\nneg.f32 %r4, %r3;\nfma.rn.f32 %r2, %r4, %r4, %r6;\nmov.b64 %rd1, 3;",
    ] {
        let text = converting(after, ("%rd1", 64));
        text.accepted();
        assert_eq!(provable(text.ptx()).unwrap(), text.ptx());
    }
}

/// Before sm_80, LLVM computes a minimum of `f16` in `f32`.
#[test]
fn a_minimum_in_a_wider_type_is_exact() {
    let text = converting(
        "mov.b16 %h6, 2;\ncvt.f32.f16 %r1, %h5;\ncvt.f32.f16 %r2, %h6;\nmin.f32 %r3, %r1, %r2;\ncvt.rn.f16.f32 %h1, %r3;",
        ("%h1", 16),
    );
    let older = text.ptx().replace("sm_80", "sm_75");
    let written = provable(older).unwrap();
    assert_eq!(written.matches("// cvt.").count(), 3, "{written}");
    assert_eq!(written.matches("// min.").count(), 1, "{written}");
    verify(&written).unwrap();
}

/// Each part of the sequence is needed.
#[test]
fn a_sequence_with_another_part_is_refused() {
    const WIDER: &str = "cvt.f64.f32 %rd2, %r6;\nmov.b64 %rd3, {%r6, %r6};\n\
        and.b64 %rd3, %rd3, -9223372036854775808;\nand.b64 %rd4, %rd2, 9223372036854775807;\n\
        or.b64 %rd1, %rd3, %rd4;";
    const PAIR: &str = "cvt.rn.f16x2.f32 %r2, %r5, %r6;\nmov.b32 {%h1, %h2}, %r5;\nmov.b32 {%h3, %h4}, %r6;\n\
        mov.b32 %r3, {%h4, %h2};\nand.b32 %r3, %r3, -2147450880;\nand.b32 %r4, %r2, 2147450879;\n\
        or.b32 %r3, %r3, %r4;\nmov.b64 %rd1, {%r3, %r3};";
    for (sequence, from, to) in [
        (WIDER, "{%r6, %r6}", "{%r6, %r5}"),
        (WIDER, "-9223372036854775808", "-4611686018427387904"),
        (WIDER, "9223372036854775807", "-1"),
        (WIDER, "or.b64", "and.b64"),
        (WIDER, "%rd3, %rd4;", "%rd4, %rd5;"),
        (WIDER, "or.b64", "@%p3 or.b64"),
        (WIDER, "cvt", "@%p3 cvt"),
        (WIDER, "\nor", "\nxor.b64 %rd5, %rd2, 1;\nor"),
        (WIDER, "%rd4;", "%rd4;\nxor.b64 %rd5, %rd2, 1;"),
        (WIDER, "cvt", "cvt.sat"),
        (PAIR, "{%h4, %h2}", "{%h2, %h4}"),
        (PAIR, "{%h1, %h2}", "{%h2, %h1}"),
        (PAIR, "-2147450880", "-2147483648"),
        (PAIR, "2147450879", "2147483647"),
    ] {
        let before = "setp.eq.s32 %p3, %r6, 7;\nmov.b64 %rd2, 0;\nmov.b64 %rd1, 0;\n";
        converting(&format!("{before}{sequence}"), ("%rd1", 64)).accepted();
        let other = sequence.replacen(from, to, 1);
        assert_ne!(other, sequence);
        converting(&format!("{before}{other}"), ("%rd1", 64)).refused(ANY_NAN);
    }
}

/// `.sat` does not keep the sign of a number, so no bits of the source take the place of a NaN's.
#[test]
fn a_conversion_that_cannot_be_rewritten_is_refused() {
    for instruction in [
        "cvt.rn.sat.f32.f64 %r1, %rd5;",
        "cvt.sat.f32.f16 %r1, %h5;",
        "cvt.rn.sat.f32.f32 %r1, %r6;",
        "mov.b32 %r1, 0;\nsetp.eq.s32 %p1, %r6, 1;\n@%p1 cvt.f32.f16 %r1, %h5;",
    ] {
        let text = converting(instruction, ("%r1", 32));
        text.refused(ANY_NAN);
        assert!(verify(&provable(text.ptx()).unwrap()).is_err(), "{instruction}");
    }
}
