//! Small texts of PTX, each with one cause of a refusal, and twins that are accepted.

use super::parameters::layout_for_tests;
use super::{Refusal, provable, verify, verify_threads};

/// A module with one entry. The entry has this body, and takes an address and a number.
fn entry(body: &str) -> String {
    module("", body)
}

fn module(before: &str, body: &str) -> String {
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n{before}\n\
         .extern .shared .align 16 .b8 dynamic[];\n\
         .global .align 4 .b8 table[8] = {{1, 2, 3}};\n\
         .visible .entry k(.param .u64 address, .param .u64 length, .param .u32 number, .param .align 8 .b8 extent[24])\n{{\n\
         .local .align 8 .b8 depot[16];\n\
         .reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n\
         mov.u32 %r1, %tid.x;\nld.param.b32 %r2, [number];\nld.param.b64 %rd1, [address];\n\
         setp.eq.s32 %p1, %r1, 0;\nsetp.eq.s32 %p2, %r2, 0;\n{body}\nret;\n}}\n"
    )
}

/// Functions with a barrier, with a result, with a write, with a mark, and with a trap.
const FUNCTIONS: &str = ".func waits() { bar.sync 0; ret; }\n\
    .func (.param .b32 out) twice(.param .b32 in) { .reg .b32 %r<3>; ld.param.b32 %r1, [in]; add.s32 %r2, %r1, %r1; \
    st.param.b32 [out], %r2; ret; }\n\
    .func puts(.param .b64 out) { .reg .b64 %rd<2>; ld.param.b64 %rd1, [out]; st.b32 [%rd1], 1; ret; }\n\
    .func opens() { .reg .b64 cuda_rt_same_view; mov.b64 cuda_rt_same_view, dynamic; ret; }\n\
    .func fails() .noreturn { trap; exit; }\n";

fn accepted(body: &str) {
    if let Err(refusal) = verify_threads(&module(FUNCTIONS, body)) {
        panic!("{body}\n{refusal}");
    }
}

/// The words of the refusal.
fn refused(body: &str) -> String {
    match verify_threads(&module(FUNCTIONS, body)) {
        Ok(_) => panic!("accepted: {body}"),
        Err(refusal @ Refusal::Text { .. }) => panic!("{body}\n{refusal}"),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn a_barrier_under_a_branch_that_differs_is_refused() {
    accepted("@%p2 bra L;\nbar.sync 0;\nL:");
    let words = refused("@%p1 bra L;\nbar.sync 0;\nL:");
    assert!(
        words.contains("the kernel `k`: `bar.sync 0` (line 25 of the PTX)"),
        "{words}"
    );
    assert!(
        words.contains("`mov.u32 %r1, %tid.x`") && words.contains("differs in each thread"),
        "{words}"
    );
    accepted("@%p1 bra L;\nadd.s32 %r3, %r2, 1;\nL: bar.sync 0;");
}

#[test]
fn a_barrier_under_a_predicate_that_differs_is_refused() {
    accepted("@%p2 bar.sync 0;");
    refused("@%p1 bar.sync 0;");
    refused("@!%p1 bar.sync 0;");
    refused("@%p1 ret;\nbar.sync 0;");
    accepted("@%p2 ret;\nbar.sync 0;");
    refused("@%p1 mov.b32 %r2, 7;\nsetp.eq.s32 %p3, %r2, 0;\n@%p3 bar.sync 0;");
}

#[test]
fn threads_do_not_diverge_at_a_path_that_traps() {
    accepted("@%p1 bra L;\nbar.sync 0;\nret;\nL: trap;");
    accepted("@%p1 trap;\nbar.sync 0;");
    accepted("@%p1 bra L;\nbar.sync 0;\nret;\nL: call.uni fails, ();\ntrap; exit;");
    // One thread alone meets the barrier before the trap.
    refused("@%p1 bra L;\nret;\nL: bar.sync 0;\ntrap;");
}

#[test]
fn a_value_that_only_some_threads_write_differs() {
    let phi = |value: &str| {
        format!(
            "mov.b32 %r3, 1;\n@%p1 bra L;\nmov.b32 %r3, {value};\nL: setp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;"
        )
    };
    let words = refused(&phi("0"));
    assert!(words.contains("only some threads write `%r3` here"), "{words}");
    accepted(&phi("0").replace("@%p1", "@%p2"));
}

/// Threads leave the loop at different times, so their counts differ.
#[test]
fn a_value_that_leaves_a_loop_at_different_times_differs() {
    let after = |predicate: &str, limit: &str| {
        format!(
            "mov.b32 %r3, 0;\nL: add.s32 %r3, %r3, 1;\nsetp.lt.s32 %p3, %r3, {limit};\n@%p3 bra L;\n\
             setp.eq.s32 %p4, {predicate}, 5;\n@%p4 bar.sync 0;"
        )
    };
    accepted(&after("%r3", "%r2"));
    refused(&after("%r3", "%r1"));
    accepted(&after("%r2", "%r1"));
    let inside = |limit: &str| {
        format!(
            "mov.b32 %r3, 0;\nL: bar.sync 0;\nadd.s32 %r3, %r3, 1;\nsetp.lt.s32 %p3, %r3, {limit};\n@%p3 bra L;"
        )
    };
    accepted(&inside("%r2"));
    refused(&inside("%r1"));
}

#[test]
fn a_register_that_a_path_leaves_unwritten_differs() {
    let words = refused("@%p2 bra L;\nmov.b32 %r3, 1;\nL: setp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;");
    assert!(words.contains("a path that never wrote it"), "{words}");
}

/// Two values share a register. The verifier keeps its facts about them apart.
#[test]
fn two_values_of_one_register_are_kept_apart() {
    let reused = |second: &str| {
        format!(
            "mov.b32 %r3, %r2;\nsetp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;\n\
             {second}\nsetp.eq.s32 %p4, %r3, 0;\n@%p4 add.s32 %r4, %r2, 1;"
        )
    };
    accepted(&reused("mov.b32 %r3, %r1;"));
    accepted(&reused("@%p2 bra L;\nmov.b32 %r3, %r1;\nL:"));
    let then = |second: &str| reused(second) + "\n@%p4 bar.sync 0;";
    accepted(&then("@%p2 bra L;\nmov.b32 %r3, 7;\nL:"));
    for differs in [
        "mov.b32 %r3, %r1;",
        "@%p2 bra L;\nmov.b32 %r3, %r1;\nL:",
        "@%p1 bra L;\nmov.b32 %r3, 7;\nL:",
        "@%p2 mov.b32 %r3, %r1;",
        "@%p1 mov.b32 %r3, 7;",
    ] {
        refused(&then(differs));
    }
    // The loop brings the second value back.
    let around = |second: &str| {
        format!(
            "mov.b32 %r3, %r2;\nL: setp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;\nmov.b32 %r3, {second};\n@%p2 bra L;"
        )
    };
    accepted(&around("9"));
    refused(&around("%r1"));
}

/// `provable` writes a register on the paths that read its value at the start, and writes nothing
/// more.
#[test]
fn provable_writes_registers_that_a_path_leaves_unwritten() {
    let whole = |body: &str| entry(body) + &tables(WRITES);
    let unwritten = "@%p2 bra L;\nmov.b32 %r3, 1;\nL: setp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;";
    verify(&whole(unwritten)).unwrap_err();
    let written = provable(whole(unwritten)).unwrap();
    verify(&written).unwrap();
    assert!(
        written.contains("mov.b32 \t%r3, 0; // nothing wrote it on this path\n@%p2 bra L;"),
        "{written}"
    );
    for alone in [
        unwritten.replace("@%p2", "@%p1"),
        "bar.sync 0;".to_owned(),
        "setp.eq.s32 %p3, %r1, 0;\n@%p3 bar.sync 0;".to_owned(),
        "L: bra M;\nN: @%p3 bar.sync 0;\nret;\nM: setp.eq.s32 %p3, %r1, 0;\nbra N;".to_owned(),
    ] {
        let given = whole(&alone);
        let written = provable(given.clone()).unwrap();
        assert_eq!(verify(&given).is_ok(), verify(&written).is_ok(), "{alone}");
    }
}

#[test]
fn an_exchange_needs_only_the_lanes_of_its_warp() {
    let voted = "vote.sync.any.pred %p3, %p1, -1;\n";
    accepted(&format!("{voted}@%p3 shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;"));
    refused(&format!("{voted}@%p3 bar.sync 0;"));
    refused("@%p1 shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;");
    refused(
        "shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;\nsetp.eq.s32 %p3, %r3, 0;\n@%p3 redux.sync.add.s32 %r4, %r3, -1;",
    );
    accepted("bar.red.or.pred %p3, 0, %p1;\n@%p3 bar.sync 0;");
    accepted("mov.b32 %r4, -1;\nredux.sync.add.s32 %r3, %r1, %r4;");
    for some in [
        "vote.sync.any.pred %p3, %p1, 1;",
        "redux.sync.add.s32 %r3, %r1, %r2;",
        "bar.warp.sync 7;",
    ] {
        assert!(refused(some).contains("whole warps"), "{some}");
    }
    for some in [
        "bar.sync 0, 64;",
        "bar.sync %r2;",
        "bar.red.or.pred %p3, 0, 64, %p1;",
    ] {
        assert!(refused(some).contains("for all threads of the block"), "{some}");
    }
}

#[test]
fn a_value_read_from_memory_that_threads_write_differs() {
    let branch = "setp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;";
    for same in [
        "ld.global.nc.b32 %r3, [%rd1];\n",
        "mov.b64 %rd2, table;\nld.global.b32 %r3, [%rd2];\n",
        "mov.b64 %rd2, depot;\nst.local.b32 [%rd2], %r2;\nld.local.b32 %r3, [%rd2];\n",
        "mov.b64 %rd2, depot;\ncvta.local.u64 %rd3, %rd2;\nadd.s64 %rd4, %rd3, 4;\nst.v2.b32 [%rd4+4], {%r2, %r2};\nld.local.b32 %r3, [%rd2+12];\n",
        "ld.shared.b32 %r3, [dynamic];\n",
        "st.shared.b32 [dynamic], %r1;\nbar.sync 0;\nld.shared.b32 %r3, [dynamic];\nbar.sync 0;\nst.shared.b32 [dynamic], %r1;\n",
    ] {
        accepted(&format!("{same}{branch}"));
    }
    for differs in [
        "ld.global.b32 %r3, [%rd1];\n",
        "ld.volatile.global.b32 %r3, [%rd1];\n",
        "ld.b32 %r3, [%rd1];\n",
        "mov.b64 %rd2, depot;\nst.local.b32 [%rd2], %r1;\nld.local.b32 %r3, [%rd2];\n",
        "mov.b64 %rd2, depot;\nst.local.b32 [%rd2], %r2;\n@%p1 bra L;\nst.local.b32 [%rd2], 7;\nL: ld.local.b32 %r3, [%rd2];\n",
        "st.shared.b32 [dynamic], %r1;\nld.shared.b32 %r3, [dynamic];\n",
        "ld.shared.b32 %r3, [dynamic];\nst.shared.b32 [dynamic], %r1;\n",
        "bar.sync 0;\nL: ld.shared.b32 %r3, [dynamic];\nsetp.eq.s32 %p4, %r2, 0;\natom.shared.add.u32 %r5, [dynamic], 1;\n@%p4 bra L;\n",
        "atom.global.add.u32 %r3, [%rd1], 1;\n",
        "cvt.u64.u32 %rd3, %r1;\nadd.s64 %rd2, %rd1, %rd3;\nld.global.nc.b32 %r3, [%rd2];\n",
        "activemask.b32 %r3;\n",
        "mov.u32 %r3, %laneid;\n",
        "mov.u32 %r3, %clock;\n",
        "mov.u32 %r3, %smid;\n",
    ] {
        refused(&format!("{differs}{branch}"));
    }
}

#[test]
fn the_carry_of_values_that_differ_differs() {
    let carried = |a: &str| {
        format!(
            "add.cc.u32 %r3, {a}, {a};\naddc.u32 %r4, %r2, %r2;\nsetp.eq.s32 %p3, %r4, 0;\n@%p3 bar.sync 0;"
        )
    };
    accepted(&carried("%r2"));
    refused(&carried("%r1"));
}

#[test]
fn a_call_has_the_effects_of_its_function() {
    accepted("call.uni waits, ();");
    accepted("@%p2 call waits, ();");
    refused("@%p1 call waits, ();");
    let doubled = |value: &str| {
        format!(
            "{{ .param .b32 a; .param .b32 b; st.param.b32 [a], {value}; call.uni (b), twice, (a); ld.param.b32 %r3, [b]; }}\n\
             setp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;"
        )
    };
    accepted(&doubled("%r2"));
    refused(&doubled("%r1"));
    assert!(refused("call.uni elsewhere, ();").contains("not in the module"));
}

#[test]
fn recursion_is_refused_and_its_cycle_is_named() {
    let functions = ".func a() { call.uni b, (); ret; }\n.func b() { call.uni a, (); ret; }\n";
    let refusal = verify_threads(&module(functions, "")).unwrap_err();
    assert!(matches!(refusal, Refusal::Recursion { .. }), "{refusal}");
    assert!(refusal.to_string().contains("may not recurse"), "{refusal}");
}

/// The tables of an entry whose parameters have these words. A length stands behind each address,
/// and the extent at the end.
fn tables(words: &[u64]) -> String {
    let mut all = Vec::new();
    for word in words {
        all.push(*word);
        if word >> 48 != 0 {
            all.push(LENGTH);
        }
    }
    all.push(24 | 8 << 32);
    let listed: Vec<String> = all.iter().map(u64::to_string).collect();
    format!(
        ".visible .global .align 8 .u64 __cuda_rt_parameters_k[{}] = {{{}}};\n{}",
        all.len(),
        listed.join(", "),
        layout_for_tests("k", &all)
    )
}

/// Verifies a whole text, with its tables.
fn whole(table: &[u64], body: &str) -> Result<(), String> {
    let text = module(FUNCTIONS, body) + &tables(table);
    verify(&text).map(drop).map_err(|refusal| refusal.to_string())
}

const LENGTH: u64 = 8 | 8 << 32;
const WRITES: &[u64] = &[LENGTH | 2 << 48, 4 | 4 << 32];
const READS: &[u64] = &[LENGTH | 1 << 48, 4 | 4 << 32];

#[test]
fn only_outputs_may_be_written() {
    whole(WRITES, "st.global.b32 [%rd1], 1;").unwrap();
    for store in [
        "mov.b64 %rd2, table;\nst.global.b32 [%rd2], 1;",
        "mov.b64 %rd2, table;\ncvta.global.u64 %rd3, %rd2;\natom.add.u32 %r3, [%rd3], 1;",
        "mov.b64 %rd2, 4096;\nst.global.b32 [%rd2], 1;",
    ] {
        whole(WRITES, store).unwrap_err();
    }
    whole(READS, "ld.global.nc.b32 %r3, [%rd1];").unwrap();
    let read = "ld.global.b32 %r3, [%rd1];\nsetp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;\n";
    whole(READS, read).unwrap();
    // LLVM may read a part of an element without the cache.
    let narrow =
        "ld.global.b8 %rs1, [%rd1+2];\nand.b16 %rs2, %rs1, 2;\nsetp.eq.b16 %p3, %rs2, 0;\n@%p3 bar.sync 0;\n";
    whole(READS, narrow).unwrap();
    whole(WRITES, &(narrow.to_owned() + "st.global.b32 [%rd1], 1;")).unwrap_err();
    whole(WRITES, &(read.to_owned() + "st.global.b32 [%rd1], 1;")).unwrap_err();
}

/// An output that the entry does not write counts as an input.
#[test]
fn an_output_that_is_only_read_counts_as_an_input() {
    let cached = "ld.global.nc.b32 %r3, [%rd1];\n";
    let uniform = "ld.global.b32 %r3, [%rd1];\nsetp.eq.s32 %p3, %r3, 0;\n@%p3 bar.sync 0;\n";
    let depot = "mov.b64 %rd2, depot;\nst.local.b64 [%rd2], %rd1;\n";
    for read in [cached, uniform] {
        whole(WRITES, read).unwrap();
        whole(WRITES, &format!("{read}st.shared.b32 [dynamic], 1;")).unwrap();
        whole(WRITES, &format!("{depot}{read}")).unwrap();
        for written in [
            "st.global.b32 [%rd1], 1;",
            "@%p2 st.global.b32 [%rd1+4], 1;",
            "red.global.add.u32 [%rd1], 1;",
            "atom.global.add.u32 %r4, [%rd1], 1;",
            "add.s64 %rd3, %rd1, 64;\nst.global.b32 [%rd3], 1;",
            "ld.local.b64 %rd3, [%rd2];\nst.global.b32 [%rd3], 1;",
            "st.shared.b64 [dynamic], %rd1;",
            "{ .param .b64 a; st.param.b64 [a], %rd1; call.uni puts, (a); }",
            "{ .param .b64 a; st.param.b64 [a], %rd2; call.uni puts, (a); }",
        ] {
            let refusal = whole(WRITES, &format!("{depot}{read}{written}")).unwrap_err();
            assert!(
                refusal.contains("read-only cache") || refusal.contains("H32"),
                "{written}: {refusal}"
            );
        }
    }
    // Two outputs are different memory.
    let two = [WRITES[0], WRITES[0]];
    let body = format!("{cached}ld.param.b64 %rd3, [other];\nst.global.b32 [%rd3], 1;");
    let text = module(FUNCTIONS, &body)
        .replace(".param .u32 number", ".param .u64 other, .param .u64 beside")
        .replace("ld.param.b32 %r2, [number]", "mov.b32 %r2, 7");
    let table = tables(&two);
    verify(&(text.clone() + &table)).unwrap();
    verify(&(text.replace("[%rd3], 1", "[%rd1], 1") + &table)).unwrap_err();
    // A function reads memory that its caller writes.
    let function = ".func gets(.param .b64 in) { .reg .b64 %a; .reg .b32 %b; ld.param.b64 %a, [in]; ld.global.nc.b32 %b, [%a]; ret; }\n";
    let calls = "{ .param .b64 a; st.param.b64 [a], %rd1; call.uni gets, (a); }\n";
    let text = |then: &str| module(function, &format!("{calls}{then}"));
    verify(&(text("") + &tables(READS))).unwrap();
    let refusal = verify(&(text("st.global.b32 [%rd1], 1;") + &tables(WRITES)));
    let refusal = refusal.unwrap_err().to_string();
    assert!(refusal.contains("read-only cache"), "{refusal}");
}

/// All threads must open the same shared memory, even if no barrier follows the mark.
#[test]
fn threads_that_open_different_shared_memory_are_refused() {
    let opens = |address: &str, len: &str| {
        format!(
            "{{ .reg .b64 cuda_rt_same_split; mov.b64 cuda_rt_same_split, {address}; mov.b64 cuda_rt_same_split, {len}; }}"
        )
    };
    let by_thread = "mov.b64 %rd5, dynamic;\ncvt.u64.u32 %rd6, %r1;\n";
    let by_launch = "mov.b64 %rd5, dynamic;\ncvt.u64.u32 %rd6, %r2;\n";
    let mark = opens("%rd5", "%rd6");
    accepted(&format!("{by_launch}{mark}"));
    accepted(&format!("{by_launch}@%p2 bra L;\n{mark}\nL:"));
    accepted(&opens("dynamic", "64"));
    let words = refused(&format!("{by_thread}{mark}"));
    for part in [
        "`%rd6` in `mov.b64 cuda_rt_same_split, %rd6`",
        "they may open different shared memory",
        "differs in each thread",
    ] {
        assert!(words.contains(part), "{words}");
    }
    for differs in [
        // The middle has two values; one of two arrays is chosen; only some threads open; only some
        // warps do.
        format!("{by_launch}@%p1 mov.b64 %rd6, 8;\n{mark}"),
        format!("{by_launch}selp.b64 %rd5, %rd5, 4096, %p1;\n{mark}"),
        format!("{by_launch}@%p1 bra L;\n{mark}\nL:"),
        format!("{by_launch}@%p1 ret;\n{mark}"),
        format!("{by_launch}vote.sync.any.pred %p3, %p1, -1;\n@%p3 bra L;\n{mark}\nL:"),
        opens("dynamic", "%tid"),
        "@%p1 call opens, ();".to_owned(),
    ] {
        refused(&differs);
    }
    accepted("@%p2 call opens, ();");
    // A register with another name is not a mark, and may differ.
    accepted(&format!("{by_thread}{}", mark.replace("cuda_rt_same", "other")));
}

#[test]
fn variables_that_a_kernel_could_change_are_refused() {
    let table = tables(WRITES);
    assert!(verify(&(entry("") + &table)).is_ok());
    for variable in [".global .align 4 .b8 count[4];", ".shared .align 4 .b8 tile[64];"] {
        let refusal = verify(&(module(variable, "") + &table)).unwrap_err();
        assert!(matches!(refusal, Refusal::Variable { .. }), "{refusal}");
    }
    assert!(verify(&(entry(".shared .align 4 .b8 tile[64];") + &table)).is_err());
}

#[test]
fn an_entry_with_other_parameters_than_its_launch_is_refused() {
    whole(WRITES, "").unwrap();
    let extent = tables(WRITES);
    for (from, to, words) in [
        (
            "17179869188, ",
            "",
            "a launch passes 3 parameters, and the entry takes 4",
        ),
        ("17179869188, ", "17179869184, ", "parameter 2 has no size"),
        (
            "17179869188, ",
            "34359738376, ",
            "parameter 2 is passed as 8 bytes aligned to 8, and taken as 4 bytes aligned to 4",
        ),
    ] {
        let mut table = extent.replacen(from, to, 1);
        assert_ne!(table, extent);
        if to.is_empty() {
            table = table.replace("parameters_k[4]", "parameters_k[3]");
        }
        let refusal = verify(&(entry("") + &table)).unwrap_err().to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
    assert!(
        verify(&entry(""))
            .unwrap_err()
            .to_string()
            .contains("of the passed parameters is missing")
    );
}

#[test]
fn a_refusal_names_the_source_line() {
    let text = module("", ".loc 1 42 7\n@%p1 bar.sync 0;") + ".file 1 \"src/lib.rs\"\n";
    let words = verify_threads(&text).unwrap_err().to_string();
    assert!(words.contains("src/lib.rs:42"), "{words}");
}

/// The host compares its own layout table with the table in the PTX. Both tables of the PTX must
/// give each parameter the same role: the host passes the address of an input for a row that reads.
#[test]
fn the_two_tables_must_agree_about_each_parameter() {
    let table = tables(WRITES);
    let layout = table.lines().last().unwrap();
    assert!(
        layout.contains("= {1, 0, 0, 0, 0, 8, 8, 261, 0, 4, 4, 1}"),
        "{layout}"
    );
    for (from, to, words) in [
        // The entry writes what the host passes as an input.
        (
            "261",
            "3",
            "parameter 0 is the address of an output of 8 bytes aligned to 8 in the table of parameters, \
             and the address of an input",
        ),
        ("261", "1", "parameter 0 is the address of an output"),
        (
            "4, 4, 1}",
            "8, 8, 1}",
            "parameter 2 is a value of 4 bytes aligned to 4 in the table of parameters",
        ),
        (
            "4, 4, 1}",
            "4, 4, 4}",
            "and a value of 24 bytes aligned to 8 in the layout table",
        ),
        (
            "k[12] = {1, 0, 0, 0",
            "k[16] = {1, 0, 0, 0, 0, 1, 1, 2",
            "parameter 0 is the address of an output",
        ),
        (
            "4, 4, 1}",
            "4, 4, 9}",
            "the layout table `__cuda_rt_layout_k` is missing",
        ),
        ("k[12]", "k[13]", "is missing"),
        ("layout_k", "layout_j", "is missing"),
    ] {
        let changed = layout.replace(from, to);
        assert_ne!(layout, changed);
        let refusal = verify(&(entry("") + &table.replace(layout, &changed)));
        let refusal = refusal.unwrap_err().to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
}

/// Each text is an error, and never a panic.
#[test]
fn a_text_that_is_not_ptx_is_an_error() {
    let whole = entry("L: bar.sync 0;\n@%p2 bra L;");
    assert!(verify_threads(&whole).is_ok());
    for text in [
        "ret;",
        ".version 7.0\n}",
        ".version 7.0\n.entry",
        ".version 7.0\n.entry a() {",
        ".version 7.0\n.func f() { bra X; }",
    ] {
        assert!(verify_threads(text).is_err(), "{text}");
    }
    for body in [
        "wgmma.fence;",
        "bra L;",
        "@%q ret;",
        "mov.b32 %r1, [%r2, 3];",
        "L: L: ret;",
        ".reg .b32 %x, %x;",
        "brx.idx %r1, T;",
        "T: .branchtargets A, B;",
        "{ .local .b8 inner[4]; }",
        "call (%r1), %rd1, (%r2), proto;",
    ] {
        let error = verify_threads(&entry(body)).unwrap_err().to_string();
        assert!(
            error.contains("line ") || error.contains("not in the module"),
            "{error}"
        );
    }
    // The text may be cut anywhere.
    for end in 0..whole.len() {
        let _ = verify_threads(&whole[..end]);
    }
    let words: Vec<&str> = whole.split(' ').collect();
    for left_out in 0..words.len() {
        let mut rest = words.clone();
        rest.remove(left_out);
        let _ = verify_threads(&rest.join(" "));
    }
}
