//! Tests of `nan_bits.rs` and `exact_nans.rs`.

use super::refused::{OWN, Text};
use super::{provable, verify};

const ANY_NAN: &str = "gives any NaN";

/// A kernel that computes `%r1` from `%r5` and `%r6`, and then uses it. Of floats of 64 bits the
/// registers are `%rd1`, `%rd5` and `%rd6`, and of 16 bits `%h1`, `%h5` and `%h6`.
fn using(compute: &str, after: &str) -> Text {
    Text::of(format!(
        ".reg .b16 %h<9>;\n{OWN}mov.b32 %r6, 7;\nmov.b64 %rd5, 1;\nmov.b64 %rd6, 2;\nmov.b16 %h5, 1;\nmov.b16 %h6, 2;\n{compute}\n{after}"
    ))
}

const STORE: &str = "st.local.b32 [depot], %r1;";

/// Programs that look at the bits of `%r1`, one after another.
const LOOKS: &[&str] = &[
    STORE,
    "shr.u32 %r2, %r1, 29;",
    "mov.b32 %r2, %r1;\nst.local.b32 [depot], %r2;",
    "setp.eq.s32 %p1, %r1, 3;",
    "setp.eq.s32 %p2, %r5, 3;\nselp.b32 %r2, %r5, %r1, %p2;\nst.local.f32 [depot], %r2;",
    "mov.b64 %rd2, {%r1, %r5};\nst.local.b64 [depot], %rd2;",
    "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;",
    "setp.eq.s32 %p2, %r5, 3;\n@%p2 bra L;\nmov.b32 %r1, 3;\nL: xor.b32 %r2, %r1, 1;",
    "{ .param .b32 a; st.param.b32 [a], %r1; call.uni takes, (a); }",
    "cvt.rn.f32.u32 %r2, %r1;",
    "slct.f32.f32 %r2, %r5, %r5, %r1;",
];

const TAKES: &str = ".func takes(.param .b32 x) { ret; }\n";

#[test]
fn a_sign_whose_bits_may_be_seen_is_refused_and_written_exactly() {
    for compute in [
        "neg.f32 \t%r1, %r5;",
        "abs.f32 %r1, %r5;",
        "copysign.f32 %r1, %r6, %r5;",
        "min.f32 %r1, %r5, %r6;",
        "max.NaN.f32 %r1, %r5, %r6;",
        "max.NaN.f32 %r1, %r5, 0f3F800000;",
        "min.f32 %r1, %r5, 0fFFC00000;",
    ] {
        for after in LOOKS {
            let text = using(compute, after).with(TAKES);
            text.refused(ANY_NAN);
            if compute.contains("0fFFC00000") {
                continue;
            }
            let written = provable(text.ptx()).unwrap();
            if let Err(refusal) = verify(&written) {
                panic!("{written}\n{refusal}");
            }
        }
    }
}

/// Nothing here looks at the bits of a NaN: the result is the same for each NaN, but for the bits
/// of a NaN that LLVM knows nothing of.
#[test]
fn a_sign_whose_bits_are_not_seen_stays_as_it_is() {
    for compute in ["neg.f32 %r1, %r5;", "abs.f32 %r1, %r5;", "min.f32 %r1, %r5, %r6;"] {
        for after in [
            "add.rn.f32 %r2, %r1, %r1;\nst.local.b32 [depot], %r2;",
            "fma.rn.f32 %r2, %r1, %r5, %r6;\nst.local.b32 [depot], %r2;",
            "setp.lt.f32 %p1, %r1, %r5;\nselp.b32 %r2, %r5, %r6, %p1;\nst.local.b32 [depot], %r2;",
            "cvt.rzi.u32.f32 %r2, %r1;\nst.local.b32 [depot], %r2;",
            "neg.f32 %r2, %r1;\nmul.rn.f32 %r3, %r2, %r2;\nst.local.b32 [depot], %r3;",
            "",
        ] {
            let text = using(compute, after);
            text.accepted();
            assert_eq!(provable(text.ptx()).unwrap(), text.ptx());
        }
    }
}

/// What a register holds before, which a later sign must not see changed: `neg` is exact only if
/// the `abs` before it is.
#[test]
fn a_sign_that_a_seen_sign_is_computed_from_is_exact_too() {
    let text = using("abs.f32 %r2, %r5;\nneg.f32 %r1, %r2;", STORE);
    let written = provable(text.ptx()).unwrap();
    assert!(written.contains("and.b32 %r2, %r5, 2147483647;"), "{written}");
    assert!(written.contains("xor.b32 %r1, %r2, -2147483648;"), "{written}");
    for (from, to) in [
        ("and.b32 %r2, %r5, 2147483647;", "abs.f32 %r2, %r5;"),
        ("xor.b32 %r1, %r2, -2147483648;", "neg.f32 %r1, %r2;"),
    ] {
        let refusal = verify(&written.replace(from, to)).unwrap_err();
        assert!(refusal.to_string().contains(ANY_NAN), "{refusal}");
    }
}

/// One bit is changed, so numbers keep their values: zeros, infinities and subnormal numbers.
#[test]
fn each_size_of_float_has_its_sign() {
    for (compute, exact) in [
        ("neg.f16 %h1, %h5;", "xor.b16 %h1, %h5, -32768;"),
        ("abs.f16 %h1, %h5;", "and.b16 %h1, %h5, 32767;"),
        ("neg.bf16 %h1, %h5;", "xor.b16 %h1, %h5, -32768;"),
        ("neg.f16x2 %r1, %r5;", "xor.b32 %r1, %r5, -2147450880;"),
        ("abs.bf16x2 %r1, %r5;", "and.b32 %r1, %r5, 2147450879;"),
        ("neg.f64 %rd1, %rd5;", "xor.b64 %rd1, %rd5, -9223372036854775808;"),
        ("abs.f64 %rd1, %rd5;", "and.b64 %rd1, %rd5, 9223372036854775807;"),
        (
            "copysign.f64 %rd1, %rd5, %rd6;",
            "and.b64 %exact_s, %rd5, -9223372036854775808;",
        ),
    ] {
        let size = if exact.contains("b16") {
            ("b16", "%h1")
        } else if exact.contains("b64") {
            ("b64", "%rd1")
        } else {
            ("b32", "%r1")
        };
        let text = using(compute, &format!("st.local.{} [depot], {};", size.0, size.1));
        text.refused(ANY_NAN);
        let written = provable(text.ptx()).unwrap();
        assert!(written.contains(exact), "{written}");
        verify(&written).unwrap();
    }
    assert_eq!(i32::from(i16::MIN) as u32 as u16, 0x8000);
    assert_eq!((-2_147_450_880_i32).cast_unsigned(), 0x8000_8000);
}

/// The sequences of minima. Each part of them is needed.
#[test]
fn a_minimum_gives_the_bits_of_an_operand_in_place_of_a_nan() {
    const PLAIN: &str = "min.f32 %r3, %r5, %r6;\nsetp.nan.f32 %p1, %r3, %r3;\nselp.b32 %r1, %r5, %r3, %p1;";
    const NAN: &str = "setp.nan.f32 %p2, %r5, %r5;\nselp.b32 %r4, %r5, %r6, %p2;\nmin.NaN.f32 %r3, %r5, %r6;\n\
         setp.nan.f32 %p1, %r3, %r3;\nselp.b32 %r1, %r4, %r3, %p1;";
    for (sequence, from, to) in [
        (PLAIN, "%p1, %r3, %r3", "%p1, %r5, %r5"),
        (PLAIN, "setp.nan", "setp.num"),
        (PLAIN, "%r1, %r5, %r3", "%r1, %r7, %r3"),
        (PLAIN, "%r1, %r5, %r3", "%r1, %r3, %r5"),
        (PLAIN, "selp.b32 %r1", "@%p1 selp.b32 %r1"),
        (PLAIN, "%r3, %p1;", "%r3, %p1;\nst.local.b32 [depot+4], %r3;"),
        (PLAIN, "\nselp", "\nsetp.eq.s32 %p1, %r5, 7;\nselp"),
        (PLAIN, "min", "@%p3 min"),
        (PLAIN, "min.f32", "min.NaN.f32"),
        (NAN, "%p2, %r5, %r5", "%p2, %r6, %r6"),
        (NAN, "%r5, %r6, %p2", "%r6, %r5, %p2"),
        (NAN, "selp.b32 %r1, %r4", "selp.b32 %r1, %r5"),
    ] {
        let before = "setp.eq.s32 %p3, %r5, 7;\nmov.b32 %r7, 8;\nmov.b32 %r3, 0;\n";
        using(&format!("{before}{sequence}"), STORE).accepted();
        let other = sequence.replacen(from, to, 1);
        assert_ne!(other, sequence);
        using(&format!("{before}{other}"), STORE).refused(ANY_NAN);
    }
    for (compute, exact) in [
        ("min.f32 %r1, %r1, %r6;", "selp.b32 %r1, %r1, %exact_t, %exact_p;"),
        (
            "max.NaN.f32 %r1, 0f80000000, %r6;",
            "selp.b32 %r1, %r6, %exact_t, %exact_p;",
        ),
        (
            "min.f16x2 %r1, %r5, %r6;",
            "min.f16 %exact_t, %exact_a1, %exact_b1;",
        ),
        ("min.f32 %r1, %r5, %r6, %r7;", "min.f32 %exact_t, %exact_m, %r7;"),
    ] {
        let written =
            provable(using(&format!("mov.b32 %r1, 3;\nmov.b32 %r7, 8;\n{compute}"), STORE).ptx()).unwrap();
        assert!(written.contains(exact), "{written}");
        verify(&written).unwrap();
    }
}

/// A minimum with a number is no NaN, and `device-std` hides its own from LLVM.
#[test]
fn a_minimum_of_which_llvm_believes_nothing_stays_as_it_is() {
    for compute in [
        "min.f32 %r1, %r5, 0f80000000;",
        "max.f32 %r1, %r5, 0fFF800000;",
        "max.f32 %r1, %r5, %r6, 0f3F800000;",
        "{ .reg .b32 cuda_rt_any_nan; min.f32 cuda_rt_any_nan, %r5, %r6; mov.b32 %r1, cuda_rt_any_nan; }",
    ] {
        using(compute, STORE).accepted();
    }
    using(
        "{ .reg .b32 cuda_rt; min.f32 cuda_rt, %r5, %r6; mov.b32 %r1, cuda_rt; }",
        STORE,
    )
    .refused(ANY_NAN);
}

/// Forms that change more than a sign, or whose belief nobody has thought about.
#[test]
fn forms_that_are_not_known_are_refused() {
    for compute in [
        "neg.ftz.f32 %r1, %r5;",
        "abs.ftz.f32 %r1, %r5;",
        "min.xorsign.abs.f32 %r1, %r5, %r6;",
        "fma.rn.relu.f16 %h1, %h5, %h5, %h6;",
        "cvt.rn.relu.f16.f32 %h1, %r5;",
    ] {
        using(compute, "").refused("a part in its name");
    }
    let text = using("setp.eq.s32 %p1, %r5, 1;\n@%p1 neg.f32 %r1, %r5;", STORE);
    text.refused(ANY_NAN);
    assert!(verify(&provable(text.ptx()).unwrap()).is_err());
}
