//! Tests of `null.rs`.

use std::collections::HashMap;

use super::refused::{OWN, Text};
use super::{provable, verify};

const TO: &str = "gives no known value";
const FROM: &str = "gives another address, if the operand is null";
const ORDER: &str = "compares by order an address of a space";
const CONSTANT: &str = "-9223372036854775808";

/// A choice between an address of shared memory and null, as LLVM writes it.
const CHOICE: &str = "mov.b64 %rd1, dynamic;\nmov.b64 %rd2, 0;\ncvta.to.shared.u64 %rd3, %rd2;\n\
    setp.eq.s32 %p1, %r5, 1;\nselp.b64 %rd4, %rd1, %rd3, %p1;\ncvta.shared.u64 %rd5, %rd4;\n\
    setp.eq.b64 %p2, %rd4, %rd3;";

fn text(body: &str) -> Text {
    Text::of(format!("{OWN}{body}"))
}

fn written(body: &str) -> String {
    provable(text(body).ptx()).unwrap()
}

#[test]
fn null_among_addresses_of_shared_memory_is_refused_and_written_exactly() {
    text(CHOICE).refused(TO);
    let written = written(CHOICE);
    verify(&written).unwrap_or_else(|refusal| panic!("{written}\n{refusal}"));
    assert!(
        written.contains(&format!("add.s64 %rd3, %rd2, {CONSTANT};")),
        "{written}"
    );
    assert_eq!(written.matches("of null too").count(), 2, "{written}");
    // The comparison is of two addresses in the space.
    assert!(written.contains("setp.eq.b64 %p2, %rd4, %rd3;"), "{written}");
}

#[test]
fn each_way_of_a_constant_is_followed() {
    const JUMP: &str = "setp.eq.s32 %p1, %r5, 1;\n@%p1 bra $A;\n";
    for body in [
        // A constant operand, and a distance from null.
        "cvta.to.shared.u64 %rd4, 0;\ncvta.shared.u64 %rd5, %rd4;",
        "mov.b64 %rd2, 12;\ncvta.to.shared.u64 %rd4, %rd2;\ncvta.shared.u64 %rd5, %rd4;",
        "mov.b64 %rd2, -4;\ncvta.to.local.u64 %rd4, %rd2;\ncvta.local.u64 %rd5, %rd4;",
        // Two paths, before and behind the conversion.
        &format!(
            "mov.b64 %rd2, 0;\n{JUMP}mov.b64 %rd2, 12;\n$A:\ncvta.to.shared.u64 %rd4, %rd2;\ncvta.shared.u64 %rd5, %rd4;"
        ),
        &format!(
            "mov.b64 %rd4, dynamic;\n{JUMP}mov.b64 %rd2, 0;\ncvta.to.shared.u64 %rd4, %rd2;\n$A:\ncvta.shared.u64 %rd5, %rd4;"
        ),
        // A choice of constants, and a sum behind the conversion.
        "setp.eq.s32 %p1, %r5, 1;\nselp.b64 %rd2, 0, 12, %p1;\ncvta.to.shared.u64 %rd4, %rd2;\ncvta.shared.u64 %rd5, %rd4;",
        "mov.b64 %rd2, 0;\ncvta.to.local.u64 %rd3, %rd2;\nadd.s64 %rd4, %rd3, 4;\ncvta.local.u64 %rd5, %rd4;",
        // A register of several values.
        "mov.b64 %rd2, 0;\ncvta.to.shared.u64 %rd2, %rd2;\ncvta.shared.u64 %rd2, %rd2;",
    ] {
        text(body).refused(TO);
        let written = written(body);
        verify(&written).unwrap_or_else(|refusal| panic!("{written}\n{refusal}"));
        assert!(
            !written.contains("\tcvta.to") && !written.contains("\ncvta.to"),
            "{written}"
        );
    }
}

#[test]
fn addresses_of_a_space_stay_as_they_are() {
    for body in [
        "mov.b64 %rd1, dynamic;\ncvta.shared.u64 %rd2, %rd1;\ncvta.to.shared.u64 %rd3, %rd2;\ncvta.shared.u64 %rd4, %rd3;",
        "mov.b64 %rd1, depot;\ncvta.local.u64 %rd2, %rd1;\nadd.u64 %rd3, %rd2, 4;\ncvta.to.local.u64 %rd4, %rd3;\nadd.u64 %rd5, %rd1, 4;\nsetp.lt.u64 %p1, %rd4, %rd5;",
        "mov.b64 %rd1, dynamic;\nmul.wide.u32 %rd2, %r5, 4;\nadd.s64 %rd3, %rd1, %rd2;\nmad.wide.u32 %rd4, %r5, 4, %rd3;\nor.b64 %rd5, %rd4, 4;\ncvta.shared.u64 %rd6, %rd5;",
        // A loop over shared memory.
        "mov.b64 %rd1, dynamic;\nadd.s64 %rd9, %rd1, 64;\n$A:\ncvta.shared.u64 %rd2, %rd1;\nadd.s64 %rd1, %rd1, 4;\nsetp.lt.u64 %p1, %rd1, %rd9;\n@%p1 bra $A;",
        // Distances are numbers.
        "mov.b64 %rd1, dynamic;\nadd.s64 %rd2, %rd1, 64;\nsub.s64 %rd3, %rd2, %rd1;\nsetp.lt.u64 %p1, %rd3, 4;",
        // Global memory has the same addresses in all spaces.
        "mov.b64 %rd2, 0;\ncvta.to.global.u64 %rd3, %rd2;\ncvta.global.u64 %rd4, %rd3;",
        // Inline assembly of `device-std`.
        "{\n.reg .b64 address;\nld.param.u64 %rd1, [number];\ncvta.to.shared.u64 address, %rd1;\n}",
    ] {
        let text = text(body);
        assert!(!provable(text.ptx()).unwrap().contains("of null"), "{body}");
        if !body.contains("$A") {
            text.accepted();
        }
    }
}

#[test]
fn a_value_that_may_lie_anywhere_is_refused() {
    let generic = "mov.b64 %rd1, dynamic;\ncvta.shared.u64 %rd2, %rd1;\nsetp.eq.s32 %p1, %r5, 1;\n";
    for (body, reason) in [
        ("ld.param.u64 %rd1, [number];\ncvta.to.shared.u64 %rd3, %rd1;", TO),
        (
            &*format!("{generic}selp.b64 %rd3, %rd2, 0, %p1;\ncvta.to.shared.u64 %rd4, %rd3;"),
            TO,
        ),
        // Another space, and a constant that is an address there.
        (&*format!("{generic}cvta.to.local.u64 %rd3, %rd2;"), TO),
        (
            "mov.b64 %rd2, 4611686018427387904;\ncvta.to.shared.u64 %rd3, %rd2;",
            TO,
        ),
        (&*format!("{generic}cvta.to.shared.u64 %rd3, %rd1;"), TO),
        (
            &*format!("{generic}add.s64 %rd3, %rd2, %rd1;\ncvta.to.shared.u64 %rd4, %rd3;"),
            TO,
        ),
        (
            &*format!("mov.b64 %rd2, 0;\n{generic}@%p1 cvta.to.shared.u64 %rd3, 0;"),
            TO,
        ),
        // The order of null and an address.
        (
            "mov.b64 %rd1, dynamic;\nmov.b64 %rd2, 0;\ncvta.to.shared.u64 %rd3, %rd2;\nsetp.lt.u64 %p1, %rd3, %rd1;",
            ORDER,
        ),
        (
            "mov.b64 %rd1, dynamic;\nmov.b64 %rd2, 0;\ncvta.to.shared.u64 %rd3, %rd2;\nmin.u64 %rd4, %rd3, %rd1;",
            ORDER,
        ),
        ("mov.b64 %rd1, depot;\nsetp.gt.u64 %p1, %rd1, 12;", ORDER),
        (&*format!("{CHOICE}\nsetp.ge.u64 %p3, %rd4, %rd1;"), ORDER),
        (
            "mov.b64 %rd1, 0;\ncvta.u64 %rd2, %rd1;",
            "a conversion that the verifier does not know",
        ),
    ] {
        let written = written(body);
        let refusal = verify(&written).expect_err(&written).to_string();
        assert!(refusal.contains(reason), "{written}\n{refusal}");
    }
    for body in [
        "mov.b64 %rd1, 12;\ncvta.shared.u64 %rd2, %rd1;",
        "ld.param.u64 %rd1, [number];\ncvta.local.u64 %rd2, %rd1;",
    ] {
        text(body).refused(FROM);
        verify(&written(body)).unwrap();
    }
}

/// Each part of the sequence is needed.
#[test]
fn another_sequence_is_refused() {
    let body = "mov.b64 %rd1, dynamic;\nmov.b64 %rd3, -9223372036854775808;\nsetp.eq.s32 %p1, %r5, 1;\n\
        selp.b64 %rd4, %rd1, %rd3, %p1;\nadd.s64 %rd6, %rd4, -4611686018427387904;\n\
        setp.ge.s64 %p2, %rd6, 0;\nadd.s64 %rd7, %rd4, -9223372036854775808;\n\
        cvta.shared.u64 %rd8, %rd4;\nselp.b64 %rd5, %rd7, %rd8, %p2;";
    text(body).accepted();
    for (from, to) in [
        ("%rd4, -4611686018427387904", "%rd4, -4611686018427387905"),
        ("%rd4, -4611686018427387904", "%rd1, -4611686018427387904"),
        ("setp.ge.s64", "setp.ge.u64"),
        ("setp.ge.s64", "setp.gt.s64"),
        ("%rd6, 0", "%rd6, 1"),
        ("%rd6, 0", "%rd4, 0"),
        ("%rd4, -9223372036854775808", "%rd4, -9223372036854775807"),
        ("%rd7, %rd4", "%rd7, %rd1"),
        ("%rd7, %rd8, %p2", "%rd8, %rd7, %p2"),
        ("%rd7, %rd8, %p2", "%rd7, %rd8, %p1"),
        ("%rd7, %rd8, %p2", "%rd4, %rd8, %p2"),
        ("%rd8, %p2;", "%rd8, %p2;\nadd.s64 %rd9, %rd8, 0;"),
        ("selp.b64 %rd5", "@%p1 selp.b64 %rd5"),
        ("add.s64 %rd7", "@%p1 add.s64 %rd7"),
        ("cvta.shared", "$A: cvta.shared"),
    ] {
        let other = body.replacen(from, to, 1);
        assert_ne!(other, body);
        let refusal = verify(&text(&other).ptx()).expect_err(&other).to_string();
        assert!(
            refusal.contains(FROM) || refusal.contains(ORDER),
            "{other}\n{refusal}"
        );
    }
}

/// Runs the written line, with `cvta` as a GPU has it.
fn run(line: &str, from: u64, window: u64) -> u64 {
    let mut values = HashMap::from([("%rd4".to_owned(), from)]);
    let code = line.split("//").next().unwrap().trim();
    for instruction in code.trim_matches(['{', '}']).split(';').map(str::trim) {
        let Some((opcode, operands)) = instruction.split_once(' ') else {
            continue;
        };
        let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
        let value = |word: &str| match word.parse::<i64>() {
            Ok(number) => number.cast_unsigned(),
            Err(_) => values[word],
        };
        let result = match opcode {
            ".reg" => continue,
            "add.s64" => value(operands[1]).wrapping_add(value(operands[2])),
            "setp.ge.s64" => u64::from(value(operands[1]).cast_signed() >= value(operands[2]).cast_signed()),
            "cvta.shared.u64" => window | value(operands[1]) & 0xffff_ffff,
            "selp.b64" if value(operands[3]) == 1 => value(operands[1]),
            "selp.b64" => value(operands[2]),
            _ => panic!("{instruction}"),
        };
        values.insert(operands[0].to_owned(), result);
    }
    values["%rd5"]
}

#[test]
fn constants_come_back_and_addresses_are_converted() {
    let written = written(CHOICE);
    let line = written.lines().find(|line| line.contains("%null_p")).unwrap();
    let window = 0x7f12 << 32;
    for constant in [
        0,
        1,
        4,
        12,
        -4,
        -1,
        1 << 32,
        1 << 61,
        -(1 << 61),
        (1 << 62) - 1,
        -(1 << 62),
    ] {
        let constant: i64 = constant;
        let moved = constant.wrapping_add(i64::MIN).cast_unsigned();
        assert_eq!(run(line, moved, window), constant.cast_unsigned(), "{constant}");
    }
    for address in [0, 1, 4, 1024, 0x3_ffff, u64::from(u32::MAX)] {
        assert_eq!(run(line, address, window), window | address, "{address}");
    }
}
