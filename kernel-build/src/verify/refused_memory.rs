//! Texts about memory that no safe Rust is known to compile to: bytes that nothing wrote, sums and
//! parts of addresses, and atomics on local memory. Each was accepted once. Each has a twin that is
//! accepted.

use super::refused::{BRANCH, FILLED, INPUT, NUMBER, OTHER, OUTPUT, OWN, Parameter, Text};
use super::{provable, verify};

/// Each thread may find other bytes in the part of a parameter that nothing wrote.
#[test]
fn a_parameter_of_a_call_that_is_written_in_part_is_refused() {
    let takes = |read: &str| {
        let text = format!(
            ".func (.param .b32 r) f(.param .align 8 .b8 a[8]) {{ .reg .b32 %q; ld.param.b32 %q, [a{read}]; \
             st.param.b32 [r], %q; ret; }}"
        );
        &*text.leak()
    };
    let call = |written: &str| {
        Text::of(format!(
            "{{ .param .align 8 .b8 a[8]; .param .b32 b; {written} call.uni (b), f, (a); ld.param.b32 %r1, [b]; }}\n{BRANCH}"
        ))
    };
    let (low, high) = ("st.param.b32 [a], 1;", "st.param.b32 [a+4], 1;");
    let halves = "st.param.v2.b32 [a], {1, 2};";
    for (written, read, is_accepted) in [
        (low, "+0", true),
        (high, "+4", true),
        (halves, "+4", true),
        (low, "+4", false),
        (high, "+0", false),
        (low, "+2", false),
        ("st.param.b16 [a], 1;", "", false),
        ("st.param.b16 [a], 1; st.param.b16 [a+2], 1;", "", true),
        ("", "", false),
    ] {
        let text = call(written).with(takes(read));
        if is_accepted {
            text.accepted();
        } else {
            text.refused("nothing before it wrote these bytes");
        }
    }
    // A function that passes its parameter on may read all of it.
    let passes = ".func g(.param .align 8 .b8 a[8]) { ret; }\n\
        .func (.param .b32 r) f(.param .align 8 .b8 a[8]) { call.uni g, (a); st.param.b32 [r], 1; ret; }";
    call(halves).with(passes).accepted();
    call(low)
        .with(passes)
        .refused("nothing before it wrote these bytes");
    call(halves)
        .with(".func (.param .b32 r) f() { st.param.b32 [r], 1; ret; }")
        .refused("passes other parameters");
}

/// PTX does not say that the memory of a call's parameters keeps its contents over the call.
#[test]
fn a_call_ends_what_was_written_for_it() {
    let text = |calls: &str| {
        Text::of(format!(
            "{{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], 1; {calls} }}\n{BRANCH}"
        ))
        .with(
            ".func (.param .b32 r) f(.param .b32 a) { .reg .b32 %q; ld.param.b32 %q, [a]; st.param.b32 [r], %q; ret; }",
        )
    };
    let (first, again, read) = (
        "call.uni (b), f, (a);",
        "call.uni (c), f, (a);",
        "ld.param.b32 %r1, [b];",
    );
    let write = "st.param.b32 [a], 1;";
    text(&format!("{first} {read} {write} {again}")).accepted();
    for calls in [
        format!("{first} {again}"),
        format!("{first} {write} {again} {read}"),
        format!("{first} ld.param.b32 %r1, [a];"),
    ] {
        text(&calls).refused("nothing before it wrote these bytes");
    }
}

#[test]
fn the_number_of_a_barrier_is_one_of_sixteen() {
    for number in ["0", "7", "15"] {
        Text::of(format!("bar.sync {number};")).accepted();
        Text::of(format!(
            "setp.eq.s32 %p1, 1, 1;\nbar.red.or.pred %p2, {number}, %p1;"
        ))
        .accepted();
    }
    for number in ["16", "255", "-1", "0x1", "0f00000000", "1U"] {
        Text::of(format!("bar.sync {number};")).refused("no number from 0 to 15");
    }
}

/// A kernel of many buffers, which reads its last input and writes by `%rd1` (`other`) or `%rd2`
/// (the output of what it returns).
fn with_inputs(count: usize, to: &str) -> Text {
    let inputs = (0..count).map(|at| (&*format!(".param .u64 input{at}").leak(), INPUT.1));
    let parameters: Vec<Parameter> = inputs.chain([OTHER, FILLED]).collect();
    Text::of(format!(
        "{OWN}ld.param.u64 %rd1, [other];\nld.param.u64 %rd2, [filled];\nld.param.u64 %rd3, [input{}];\n\
         ld.global.nc.u32 %r1, [%rd3];\nst.global.u32 [{to}], %r1;",
        count - 1
    ))
    .taking(&parameters)
}

/// Behind each buffer stands its length, so the output has the number 2 * count + 2.
#[test]
fn outputs_behind_many_parameters_are_told_apart() {
    for count in [1, 27, 28, 29, 58] {
        with_inputs(count, "%rd2").accepted();
        with_inputs(count, "%rd1").refused("writes no element of parameter");
    }
    with_inputs(59, "%rd2").refused("the first 120 parameters");
}

/// A result is written in part, or on some paths only.
#[test]
fn a_result_that_is_written_in_part_is_refused() {
    let text = |written: &str, read: &str| {
        let function = format!(
            ".func (.param .align 8 .b8 r[8]) f() {{ .reg .b32 %q; .reg .pred %p; mov.u32 %q, %ctaid.x; \
             setp.eq.s32 %p, %q, 0; {written} ret; }}"
        );
        Text::of(format!(
            "{{ .param .align 8 .b8 b[8]; call.uni (b), f, (); ld.param.b32 %r1, [b{read}]; }}\n{BRANCH}"
        ))
        .with(function.leak())
    };
    text("st.param.b32 [r+4], %q;", "+4").accepted();
    text("st.param.b32 [r+4], %q;", "").refused("nothing before it wrote these bytes");
    text("st.param.b64 [r], 0;", "").accepted();
    // Both paths write the result, but not the same bytes.
    let paths = "@%p bra L; st.param.b32 [r], 1; ret; L: st.param.b32 [r+4], 1;";
    text(paths, "").refused("H32");
    text(&paths.replace("[r+4]", "[r]"), "").accepted();
    text("st.param.b64 [r], 0; ld.param.b32 %q, [r];", "").refused("the result of its own function");
}

/// Nothing writes local memory before the function does.
#[test]
fn local_memory_that_a_path_leaves_unwritten_differs() {
    let read = |before: &str, address: &str| {
        Text::of(format!(
            "mov.u32 %r2, %ctaid.x;\nsetp.eq.s32 %p2, %r2, 0;\nmov.b64 %rd1, depot;\ncvta.local.u64 %rd2, %rd1;\n\
             add.s64 %rd3, %rd1, 4;\ncvt.u64.u32 %rd4, %r2;\nadd.s64 %rd5, %rd1, %rd4;\n\
             {before}\nld.local.b32 %r1, [{address}];\n{BRANCH}"
        ))
    };
    let (low, high) = ("st.local.b32 [%rd1], 1;\n", "st.local.b32 [%rd3], %r2;\n");
    read(low, "%rd1").accepted();
    read(low, "depot").accepted();
    read("st.b32 [%rd2+4], 1;\n", "%rd3").accepted();
    read("st.local.b64 [depot], 1;", "%rd1+4").accepted();
    read(&format!("{low}{high}"), "%rd5").accepted();
    for (before, address) in [
        ("", "%rd1"),
        (low, "%rd3"),
        (high, "%rd1"),
        (low, "%rd1+2"),
        ("st.local.b16 [%rd1], 1;", "%rd1"),
        (low, "%rd5"),
        // A store at an unknown address writes no byte for certain.
        ("st.local.b32 [%rd5], 1;", "%rd1"),
        ("@%p2 st.local.b32 [%rd1], 1;", "%rd1"),
        ("@%p2 bra L;\nst.local.b32 [%rd1], 1;\nL:", "%rd1"),
        (
            "@%p2 bra L;\nst.local.b32 [%rd1], 1;\nbra M;\nL: add.s32 %r6, %r2, 1;\nM:",
            "%rd1",
        ),
        (
            "@%p2 bra L;\nadd.s32 %r6, %r2, 1;\nbra M;\nL: st.local.b32 [%rd1], 1;\nM:",
            "%rd1",
        ),
        ("@%p2 add.s64 %rd1, %rd1, 4;\nst.local.b32 [%rd1], 1;", "depot"),
        // The loop reads before it writes.
        (
            "L: ld.local.b32 %r1, [depot];\nst.local.b32 [depot], 1;\n@%p2 bra L;\nsetp.eq.s32 %p3, %r1, 0;\n@%p3 bar.sync 0;",
            "depot",
        ),
    ] {
        read(before, address).refused("H32");
    }
    let both = "@%p2 bra L;\nst.local.b32 [%rd1], 1;\nbra M;\nL: st.local.b32 [depot], 2;\nM:";
    read(both, "%rd1").accepted();
}

/// What is in unwritten memory may equal any address.
#[test]
fn an_address_from_unwritten_local_memory_is_unknown() {
    let text = |before: &str| {
        Text::of(format!(
            "{OWN}ld.param.u64 %rd1, [output];\n{before}\nld.local.b64 %rd2, [depot];\nst.global.u32 [%rd2], %r5;"
        ))
        .taking(&[OUTPUT])
    };
    text("st.local.b64 [depot], %rd1;").accepted();
    text("setp.eq.s32 %p3, %r5, 0;\n@%p3 st.local.b64 [depot], %rd1;").refused("does not know the memory");
    // Half of another address, or of a number, stands in it.
    text("st.local.b64 [depot], %rd1;\nmov.b64 {%r2, %r3}, %rd1;\nst.local.b32 [depot], %r3;")
        .refused("does not know the memory");
}

/// The build writes local memory that a path leaves unwritten, if the proof fails without it.
#[test]
fn provable_writes_local_memory_that_a_path_leaves_unwritten() {
    let text = |depot: &str, address: &str| {
        Text::of(format!(
            "mov.b64 %rd1, {depot};\nmov.u32 %r2, %ctaid.x;\ncvt.u64.u32 %rd4, %r2;\nadd.s64 %rd5, %rd1, %rd4;\n\
             st.local.b32 [%rd5], 1;\nld.local.b32 %r1, [{address}];\n{BRANCH}"
        ))
        .ptx()
    };
    for address in ["%rd1+4", "%rd5"] {
        let given = text("depot", address);
        verify(&given).unwrap_err();
        let written = provable(given.clone()).unwrap();
        verify(&written).unwrap();
        let line = "\tst.local.b64 \t[depot+0], 0; // nothing wrote it before\nmov.b64 %rd1, depot;";
        assert!(written.contains(line), "{written}");
    }
    // The element of the stores fits the alignment and the end of the variable.
    let odd = text("depot", "%rd5").replace(".local .align 8 .b8 depot[8]", ".local .align 4 .b8 depot[7]");
    let written = provable(odd).unwrap();
    for store in ["b32 \t[depot+0]", "b16 \t[depot+4]", "b8 \t[depot+6]"] {
        assert!(written.contains(store), "{written}");
    }
    // A large variable stays as it is, and the text is refused.
    let large = text("depot", "%rd5").replace("depot[8]", "depot[8192]");
    assert_eq!(provable(large.clone()).unwrap(), large);
}

/// A sum of two addresses is an address in the memory of neither.
#[test]
fn a_sum_of_two_addresses_is_no_address() {
    let text = |computed: &str, parameters: &[Parameter]| {
        Text::of(format!(
            "{OWN}ld.param.u64 %rd1, [output];\nld.param.u64 %rd2, [other];\nld.param.u64 %rd3, [number];\n\
             {computed}\nst.global.u32 [%rd4], %r5;"
        ))
        .taking(parameters)
    };
    let all = [OUTPUT, OTHER, NUMBER];
    for computed in [
        "add.s64 %rd4, %rd1, %rd3;",
        "sub.s64 %rd4, %rd1, %rd3;",
        "mad.lo.s64 %rd4, %rd3, 4, %rd1;",
        "or.b64 %rd4, %rd1, 4;",
    ] {
        text(computed, &all).accepted();
    }
    for computed in [
        "add.s64 %rd4, %rd1, %rd2;",
        "add.s64 %rd4, %rd1, %rd1;",
        "add.cc.s64 %rd4, %rd2, %rd1;",
        "or.b64 %rd4, %rd1, %rd2;",
        "mov.u64 %rd5, depot;\nadd.s64 %rd4, %rd1, %rd5;",
        "mov.u64 %rd5, dynamic;\nadd.s64 %rd4, %rd5, %rd1;",
        "mad.lo.s64 %rd4, %rd3, %rd2, %rd1;",
        "mad.lo.s64 %rd4, %rd1, 4, %rd3;",
        "mad.lo.s64 %rd4, %rd1, 4, 0;",
        "sub.s64 %rd4, %rd3, %rd1;",
    ] {
        text(computed, &all).refused("does not know the memory");
    }
    // With an input in the sum, its memory might be written.
    let sum = "{ld}add.s64 %rd4, %rd1, %rd2;";
    let sum = sum.replace("{ld}", "ld.param.u64 %rd2, [input];\n");
    text(&sum, &[OUTPUT, OTHER, NUMBER, INPUT]).refused("may write to an input");
}

/// The proof is weaker inside functions: an argument may be a number, so the sum of two arguments
/// counts as an address in the memory of either.
#[test]
fn a_sum_of_two_arguments_is_an_address_of_either() {
    let writes = ".func writes(.param .b64 a, .param .b64 b) { .reg .b64 %a; .reg .b64 %b; \
        ld.param.b64 %a, [a]; ld.param.b64 %b, [b]; add.s64 %a, %a, %b; st.global.b32 [%a], 1; ret; }";
    let with = |second: Parameter, name: &str| {
        Text::of(format!(
            "ld.param.u64 %rd1, [output];\nld.param.u64 %rd2, [{name}];\n{{ .param .b64 a; .param .b64 b; \
             st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; call.uni writes, (a, b); }}"
        ))
        .taking(&[OUTPUT, second])
        .with(writes)
    };
    with(OTHER, "other").accepted();
    with(INPUT, "input").refused("may write to an input");
    // A number that the caller does not know may be any address.
    with(NUMBER, "number").refused("does not know the memory");
}

/// What is put together from parts of addresses may be any address.
#[test]
fn parts_of_addresses_are_numbers() {
    let text = |computed: &str| {
        Text::of(format!(
            "{OWN}ld.param.u64 %rd1, [output];\nmov.b64 {{%r2, %r3}}, %rd1;\n{computed}\nst.global.u32 [%rd4], %r5;"
        ))
        .taking(&[OUTPUT])
    };
    text("st.local.b64 [depot], %rd1;\nld.local.b64 %rd4, [depot];").accepted();
    for computed in [
        "mov.b64 %rd4, {%r2, %r2};",
        "mov.b64 %rd4, {%r2, %r3};",
        "st.local.b64 [depot], %rd1;\nst.local.b32 [depot], %r3;\nld.local.b64 %rd4, [depot];",
        "st.local.b64 [depot], %rd1;\nld.local.b32 %r6, [depot];\nst.local.b32 [depot+4], %r6;\nld.local.b64 %rd4, [depot];",
    ] {
        text(computed).refused("does not know the memory");
    }
}

const COUNTS: &str = ".func counts(.param .b64 a) { .reg .b32 %q; .reg .b64 %w; ld.param.b64 %w, [a]; atom.add.u32 %q, [%w], 1; ret; }";

/// A GPU has no atomics on local memory, and no accesses to it with a memory order.
#[test]
fn an_atomic_on_local_memory_is_refused() {
    let call =
        |function: &str| format!("{{ .param .b64 a; st.param.b64 [a], %rd2; call.uni {function}, (a); }}");
    for access in [
        "atom.add.u32 %r6, [%rd2], 1;",
        "atom.relaxed.sys.add.u32 %r6, [%rd2], 1;",
        "atom.cas.b32 %r6, [%rd2], 0, 1;",
        "red.add.u32 [%rd2], 1;",
        "ld.relaxed.sys.b32 %r6, [%rd2];",
        "ld.volatile.b32 %r6, [%rd2];",
        "st.release.sys.b32 [%rd2], 1;",
        &call("counts"),
    ] {
        let text = |address: &str| {
            Text::of(format!("{address}{access}"))
                .with(COUNTS)
                .taking(&[OUTPUT])
        };
        let local = "mov.u64 %rd1, depot;\ncvta.local.u64 %rd2, %rd1;\nst.local.u32 [%rd1], 0;\n";
        text(local).refused("use a plain variable or a `Cell`");
        text("ld.param.u64 %rd2, [output];\n").accepted();
        text("mov.u64 %rd1, dynamic;\ncvta.shared.u64 %rd2, %rd1;\n").accepted();
        let either = "ld.param.u64 %rd2, [output];\nmov.u64 %rd1, depot;\ncvta.local.u64 %rd3, %rd1;\n\
            setp.eq.u64 %p3, %rd2, 0;\nselp.b64 %rd2, %rd2, %rd3, %p3;\n";
        text(either).refused("use a plain variable or a `Cell`");
    }
}
