//! Effects of functions count at their calls: small texts of PTX, each with one call that is
//! refused, and twins that are accepted.

use super::{Refusal, verify_threads};

const FUNCTIONS: &str = ".func waits() { bar.sync 0; ret; }\n\
    .func outer() { call.uni waits, (); ret; }\n\
    .func votes() { .reg .pred %p<3>; .reg .b32 %r<2>; mov.b32 %r1, 0; setp.eq.s32 %p1, %r1, 0; vote.sync.any.pred %p2, %p1, -1; ret; }\n\
    .func writes() { .reg .b32 %r<2>; mov.u32 %r1, %tid.x; st.shared.b32 [dynamic], %r1; ret; }\n\
    .func writes_by_any() { .reg .b32 %r<2>; .reg .b64 %rd<3>; mov.b64 %rd1, dynamic; cvta.shared.u64 %rd2, %rd1; \
    mov.u32 %r1, %tid.x; atom.add.u32 %r1, [%rd2], 1; ret; }\n\
    .func writes_deeper() { call.uni writes, (); ret; }\n";

/// The words of the refusal, if there is one.
fn refusal(body: &str) -> Option<String> {
    let text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n{FUNCTIONS}\
         .visible .entry k(.param .u32 number)\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<4>;\n\
         mov.u32 %r1, %tid.x;\nld.param.b32 %r2, [number];\n\
         setp.eq.s32 %p1, %r1, 0;\nsetp.eq.s32 %p2, %r2, 0;\n{body}\nret;\n}}\n"
    );
    match verify_threads(&text) {
        Ok(_) => None,
        Err(refusal @ Refusal::Text { .. }) => panic!("{body}\n{refusal}"),
        Err(refusal) => Some(refusal.to_string()),
    }
}

fn accepted(body: &str) {
    if let Some(words) = refusal(body) {
        panic!("{body}\n{words}");
    }
}

fn refused(body: &str) {
    assert!(refusal(body).is_some(), "accepted: {body}");
}

/// A call of a function with a barrier, or with an exchange, counts as a barrier or an exchange,
/// also before a trap.
#[test]
fn a_function_with_a_barrier_before_a_trap_is_refused() {
    let both = "@%p1 bra L;\nbar.sync 0;\nbar.sync 0;\nret;\nL: ";
    for met in [
        "bar.sync 0;",
        "call.uni waits, ();",
        "call.uni outer, ();",
        "call.uni votes, ();",
    ] {
        refused(&format!("{both}{met}\ntrap;"));
        accepted(&format!("{both}{met}\ntrap;").replace("@%p1", "@%p2"));
    }
    accepted(&format!("{both}call.uni writes, ();\ntrap;"));
}

/// A call of a function that writes shared memory counts as a write of shared memory.
#[test]
fn a_read_of_shared_memory_that_a_function_writes_is_refused() {
    let read = "ld.shared.b32 %r3, [dynamic];\nsetp.eq.s32 %p3, %r3, 5;\n@%p3 bar.sync 0;";
    for written in [
        "st.shared.b32 [dynamic], %r1;",
        "call.uni writes, ();",
        "call.uni writes_by_any, ();",
        "call.uni writes_deeper, ();",
    ] {
        refused(&format!("{written}\n{read}"));
        accepted(&format!("{written}\nbar.sync 0;\n{read}"));
    }
}
