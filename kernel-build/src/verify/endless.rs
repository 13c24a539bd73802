//! Loops that may never end, and twins that end or that the compiler keeps.

use super::check::Checker;
use super::{Refusal, loops, modules};

/// A function with three numbers, and an entry that calls it.
fn text(body: &str) -> String {
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n\
         .func effect() {{ bar.sync 0; ret; }}\n\
         .visible .entry k(.param .u64 at, .param .u32 n, .param .u32 m)\n{{\n\
         .local .align 8 .b8 depot[16];\n\
         .reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<19>;\n.reg .b64 %rd<19>;\n\
         ld.param.b64 %rd1, [at];\nld.param.b32 %r1, [n];\nld.param.b32 %r2, [m];\n\
         cvt.u16.u32 %rs1, %r1;\ncvt.u16.u32 %rs2, %r2;\nsetp.eq.s32 %p1, %r1, %r2;\n\
         {body}\nret;\n}}\n"
    )
}

fn check(text: &str) -> Result<(), Refusal> {
    for module in &modules(text)? {
        loops::check(&Checker::new(module)?)?;
    }
    Ok(())
}

fn accepted(body: &str) {
    if let Err(refusal) = check(&text(body)) {
        panic!("{body}\n{refusal}");
    }
}

/// The loop is refused, and accepted after [`loops::keep`].
fn refused(body: &str) {
    let text = text(body);
    match check(&text) {
        Err(Refusal::Loop { .. }) => {}
        other => panic!("{other:?}: {body}"),
    }
    // Only a label in a line of its own gets the instruction behind it.
    let kept = loops::keep(&text.replace(": ", ":\n")).unwrap();
    assert!(kept.contains("pmevent"), "{kept}");
    check(&kept).unwrap_or_else(|refusal| panic!("{refusal}\n{kept}"));
}

/// A loop that Rust may run for ever, with this instruction in it.
fn congruential(inside: &str) -> String {
    format!("L: mad.lo.s32 %r1, %r1, 5, 1;\n{inside}\nsetp.ne.b32 %p2, %r1, %r2;\n@%p2 bra L;")
}

/// A loop of a counter, which starts at `%r1`, and a bound `%r2`.
fn counted(step: &str, comparison: &str) -> String {
    format!("mov.b32 %r3, %r1;\nL: {step};\nsetp.{comparison};\n@%p2 bra L;")
}

#[test]
fn a_loop_without_a_kept_instruction_is_refused() {
    for inside in [
        "",
        "activemask.b32 %r4;",
        "mov.u32 %r4, %clock;",
        "ld.global.b32 %r4, [%rd1];",
        "ld.relaxed.gpu.global.b32 %r4, [%rd1];",
        "st.local.b32 [depot], %r1;",
        "st.volatile.local.b32 [depot], %r1;",
        "st.global.b32 [%rd1], %r1;",
        "pmevent.mask 0;",
        "call.uni effect, ();",
        // Only some turns execute these.
        "@%p1 pmevent 7;",
        "@%p1 bra M;\npmevent 7;\nM:",
    ] {
        refused(&congruential(inside));
    }
    refused("L: bra.uni L;");
    refused("@%p1 bra M;\nret;\nM: bra.uni M;");
    for inside in [
        "pmevent 7;",
        "bar.sync 0;",
        "st.volatile.global.b32 [%rd1], 1;",
        "st.relaxed.gpu.global.b32 [%rd1], 1;",
        "st.release.gpu.global.b32 [%rd1], 1;",
        "atom.global.add.u32 %r4, [%rd1], 0;",
        "red.shared.add.u32 [dynamic], 1;",
        "@%p1 bra M;\npmevent 7;\nbra.uni N;\nM: pmevent 7;\nN:",
    ] {
        accepted(&congruential(inside));
    }
}

/// The instruction must lie in each cycle, not in each loop that a header has.
#[test]
fn each_cycle_needs_a_kept_instruction() {
    // An inner cycle, an outer cycle, and two cycles with one start.
    refused("L: pmevent 7;\nM: add.s32 %r1, %r1, %r2;\nsetp.ne.b32 %p2, %r1, 0;\n@%p2 bra M;\n@%p1 bra L;");
    refused(
        "L: add.s32 %r1, %r1, %r2;\nsetp.ne.b32 %p2, %r1, 0;\n@%p2 bra M;\n@%p1 bra N;\nbra.uni L;\nM: pmevent 7;\nbra.uni L;\nN:",
    );
    accepted("L: pmevent 7;\nadd.s32 %r1, %r1, %r2;\nsetp.ne.b32 %p2, %r1, 0;\n@%p2 bra L;\n@%p1 bra L;");
    // Two blocks that jump to each other, and that control may enter at both: no natural loop.
    let both = |left: &str, right: &str| {
        format!(
            "@%p1 bra M;\nL: add.s32 %r1, %r1, %r2;\n{left}\nsetp.eq.s32 %p2, %r1, 5;\n@%p2 bra E;\n\
             M: add.s32 %r1, %r1, 3;\n{right}\nsetp.eq.s32 %p3, %r1, 9;\n@%p3 bra E;\nbra.uni L;\nE:"
        )
    };
    refused(&both("", ""));
    accepted(&both("pmevent 7;", ""));
    accepted(&both("", "pmevent 7;"));
    // A chain of nested loops without an effect, around one that is kept.
    refused(
        "K: add.s32 %r3, %r3, 1;\nL: pmevent 7;\nsetp.eq.s32 %p2, %r3, %r1;\n@%p2 bra L;\nM: setp.ne.s32 %p3, %r2, 0;\n@%p3 bra M;\n@%p1 bra K;",
    );
}

/// A loop inside a function is a loop of its own, also if its call lies in no loop.
#[test]
fn a_loop_in_a_function_is_refused() {
    let function = |inside: &str| {
        text("call.uni spins, ();").replace(
            ".func effect",
            &format!(".func spins() {{ L: {inside} bra.uni L; }}\n.func effect"),
        )
    };
    assert!(matches!(check(&function("")), Err(Refusal::Loop { function, .. }) if function == "spins"));
    check(&function("pmevent 7;")).unwrap();
}

#[test]
fn counters_that_end_for_every_start_are_accepted() {
    for (step, comparison) in [
        ("add.s32 %r3, %r3, 1", "ne.b32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, -1", "ne.s32 %p2, %r2, %r3"),
        ("add.s32 %r3, %r3, 3", "ne.b32 %p2, %r3, 7"),
        ("add.s32 %r3, %r3, 1", "lt.u32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, 1", "gt.s32 %p2, %r2, %r3"),
        ("sub.s32 %r3, %r3, 1", "gt.u32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, 4", "le.u32 %p2, %r3, 4294967291"),
        ("add.s32 %r3, %r3, -1", "ge.s32 %p2, %r3, -7"),
        ("add.s32 %r3, %r3, 6", "eq.b32 %p2, %r3, %r2"),
        (
            "add.s32 %r3, %r3, 1;\ncvt.u16.u32 %rs3, %r3",
            "ne.b16 %p2, %rs3, %rs2",
        ),
        ("add.s32 %r3, %r3, 4", "lt.u32 %p2, %r3, 100"),
    ] {
        accepted(&counted(step, comparison));
    }
    // The bound is masked, and so is the start.
    accepted(
        "and.b32 %r4, %r2, -4;\nmov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 4;\nsetp.ne.b32 %p2, %r3, %r4;\n@%p2 bra L;",
    );
    // A bound of 32 bits for a counter of 64.
    accepted(
        "cvt.u64.u32 %rd3, %r2;\nmov.b64 %rd2, 0;\nL: add.s64 %rd2, %rd2, 1;\nsetp.le.u64 %p2, %rd2, %rd3;\n@%p2 bra L;",
    );
    // A counter of 64 bits, of which the loop compares 32, and an extended one.
    accepted(
        "mov.b64 %rd2, 0;\nL: add.s64 %rd2, %rd2, 1;\ncvt.u32.u64 %r3, %rd2;\nsetp.ne.b32 %p2, %r3, %r2;\n@%p2 bra L;",
    );
    // Exits in the middle, by negation, by one of two conditions, and in nested loops.
    accepted(
        "mov.b32 %r3, 0;\nL: setp.ge.u32 %p2, %r3, %r2;\n@%p2 bra E;\nadd.s32 %r3, %r3, 1;\nbra.uni L;\nE:",
    );
    accepted("mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.eq.b32 %p2, %r3, %r2;\n@!%p2 bra L;");
    accepted(
        "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.ne.b32 %p2, %r3, %r2;\nand.pred %p3, %p1, %p2;\n@%p3 bra L;",
    );
    accepted(
        "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.eq.b32 %p2, %r3, %r2;\nor.pred %p3, %p1, %p2;\nnot.pred %p4, %p3;\n@%p4 bra L;",
    );
    accepted(
        "mov.b32 %r3, 0;\nK: mov.b32 %r4, 0;\nL: add.s32 %r4, %r4, 1;\nsetp.ne.b32 %p2, %r4, %r1;\n@%p2 bra L;\nadd.s32 %r3, %r3, 1;\nsetp.ne.b32 %p3, %r3, %r2;\n@%p3 bra K;",
    );
    // Both ways through the loop add 1.
    accepted(
        "mov.b32 %r3, 0;\nL: @%p1 bra M;\nadd.s32 %r3, %r3, 1;\nbra.uni N;\nM: add.s32 %r3, %r3, 1;\nN: setp.ne.b32 %p2, %r3, %r2;\n@%p2 bra L;",
    );
}

#[test]
fn counters_that_some_start_keeps_from_ending_are_refused() {
    for (step, comparison) in [
        // The step may jump over the bound, or the bound may be the greatest number.
        ("add.s32 %r3, %r3, 2", "ne.b32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, 4", "lt.u32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, 1", "le.u32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, -1", "ge.u32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, 1", "le.u32 %p2, %r3, 4294967295"),
        ("add.s32 %r3, %r3, 1", "le.u32 %p2, %r3, -1"),
        ("add.s32 %r3, %r3, 1", "le.s32 %p2, %r3, 2147483647"),
        ("add.s32 %r3, %r3, 4", "le.u32 %p2, %r3, 4294967292"),
        ("add.s32 %r3, %r3, 4", "ne.b32 %p2, %r3, 8"),
        ("add.s32 %r3, %r3, -1", "ge.s32 %p2, %r3, -2147483648"),
        // No step, or a step that is not constant.
        ("add.s32 %r3, %r3, 0", "ne.b32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, 4294967296", "ne.b32 %p2, %r3, %r2"),
        ("add.s32 %r3, %r3, %r1", "ne.b32 %p2, %r3, %r2"),
        ("mul.lo.s32 %r3, %r3, 3", "ne.b32 %p2, %r3, %r2"),
        ("sub.s32 %r3, 1, %r3", "ne.b32 %p2, %r3, %r2"),
        ("add.sat.s32 %r3, %r3, 1", "lt.s32 %p2, %r2, %r3"),
        // The step may be left out.
        ("@%p1 add.s32 %r3, %r3, 1", "ne.b32 %p2, %r3, %r2"),
        ("@!%p1 add.s32 %r3, %r3, 1", "ne.b32 %p2, %r3, %r2"),
        // The bound changes, or a comparison of other bits.
        (
            "add.s32 %r3, %r3, 1;\nadd.s32 %r2, %r2, 1",
            "ne.b32 %p2, %r3, %r2",
        ),
        (
            "add.s32 %r3, %r3, 1;\nmov.u32 %r2, %clock",
            "ne.b32 %p2, %r3, %r2",
        ),
        (
            "add.s32 %r3, %r3, 1;\nand.b32 %r4, %r3, 3",
            "ne.b32 %p2, %r4, %r2",
        ),
        ("add.s32 %r3, %r3, 1", "ne.f32 %p2, %r3, %r2"),
    ] {
        refused(&counted(step, comparison));
    }
    // The compared bits stay the same, or the step is lost in the other bits.
    refused(
        "mov.b64 %rd2, 0;\nL: add.s64 %rd2, %rd2, 4294967296;\ncvt.u32.u64 %r3, %rd2;\nsetp.ne.b32 %p2, %r3, %r2;\n@%p2 bra L;",
    );
    refused(
        "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\ncvt.u64.u32 %rd2, %r3;\nsetp.ne.b64 %p2, %rd2, %rd1;\n@%p2 bra L;",
    );
    refused(
        "mov.b64 %rd2, 0;\nL: add.s64 %rd2, %rd2, 1;\ncvt.u16.u64 %rs3, %rd2;\ncvt.u32.u16 %r3, %rs3;\nsetp.ne.b32 %p2, %r3, %r2;\n@%p2 bra L;",
    );
    // The counter starts again.
    refused(
        "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.eq.b32 %p2, %r3, %r2;\n@%p2 bra E;\n@!%p1 bra L;\nmov.b32 %r3, 0;\nbra.uni L;\nE:",
    );
    // A way around the test, and a test of the last turn's value.
    refused("mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\n@%p1 bra L;\nsetp.ne.b32 %p2, %r3, %r2;\n@%p2 bra L;");
    refused(
        "mov.b32 %r3, 0;\nL: @%p1 bra M;\nsetp.eq.b32 %p2, %r3, %r2;\nM: @%p2 bra E;\nadd.s32 %r3, %r3, 1;\nbra.uni L;\nE:",
    );
    // Both targets of the test stay in the loop.
    refused(
        "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.ne.b32 %p2, %r3, %r2;\n@%p2 bra M;\nadd.s32 %r4, %r4, 1;\nM: bra.uni L;",
    );
    // The other value of the predicate stays in the loop, and it says less.
    refused(
        "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.ne.b32 %p2, %r3, %r2;\nor.pred %p3, %p1, %p2;\n@%p3 bra L;",
    );
    refused(
        "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.eq.b32 %p2, %r3, %r2;\nand.pred %p3, %p1, %p2;\nnot.pred %p4, %p3;\n@%p4 bra L;",
    );
    refused(
        "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.le.u32 %p2, %r3, %r2;\nand.pred %p3, !%p2, %p1;\n@!%p3 bra L;",
    );
    // The start or the bound alone is a multiple of the step.
    refused(
        "and.b32 %r4, %r2, -4;\nmov.b32 %r3, %r1;\nL: add.s32 %r3, %r3, 4;\nsetp.ne.b32 %p2, %r3, %r4;\n@%p2 bra L;",
    );
    refused("mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 4;\nsetp.ne.b32 %p2, %r3, %r2;\n@%p2 bra L;");
    // One way adds 1, the other takes 1 away.
    refused(
        "mov.b32 %r3, 0;\nL: @%p1 bra M;\nadd.s32 %r3, %r3, 1;\nbra.uni N;\nM: add.s32 %r3, %r3, -1;\nN: setp.ne.b32 %p2, %r3, %r2;\n@%p2 bra L;",
    );
}

/// Counters of 16 bits, compared with all starts: an accepted loop ends for each of them.
#[test]
fn accepted_counters_end_for_all_starts() {
    let relations: [(&str, fn(i64, i64) -> bool); 6] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
    ];
    let bounds = [
        0_i64, 3, 4, -1, -4, 32763, 32764, 32767, -32768, -32764, 65532, 65535,
    ];
    let (mut accepted, mut refused) = (0, 0);
    for (relation, holds) in relations {
        for kind in ["u16", "s16"] {
            let read = |bits: u16| match kind {
                "u16" => i64::from(bits),
                _ => i64::from(bits.cast_signed()),
            };
            for step in [1_i64, -3, 2, -4, 6, 16384] {
                for bound in bounds {
                    for (offset, start) in [(3, None), (0, Some(4))] {
                        for is_negated in [false, true] {
                            let guard = if is_negated { "@!%p2" } else { "@%p2" };
                            let first = start.map_or("%rs1".to_owned(), |start: u16| start.to_string());
                            let body = format!(
                                "mov.b16 %rs3, {first};\nL: add.s16 %rs4, %rs3, {offset};\nadd.s16 %rs3, %rs3, {step};\n\
                                 setp.{relation}.{kind} %p2, %rs4, {bound};\n{guard} bra L;"
                            );
                            if check(&text(&body)).is_err() {
                                refused += 1;
                                continue;
                            }
                            accepted += 1;
                            let stays = |value: u16| {
                                let compared = value.wrapping_add(offset);
                                holds(read(compared), read(bound as u16)) != is_negated
                            };
                            // One member of each set of numbers through which a counter walks.
                            let size = 1 << (step as u16).trailing_zeros();
                            let starts = match start {
                                Some(start) => start..start + 1,
                                None => 0..size,
                            };
                            for start in starts {
                                let turns = (0..=u16::MAX)
                                    .map(|turn| start.wrapping_add((step as u16).wrapping_mul(turn)));
                                assert!(turns.into_iter().any(|value| !stays(value)), "{start}: {body}");
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(
        accepted > 500 && refused > 500,
        "{accepted} accepted, {refused} refused"
    );
}
