//! The closed lists of the parts of instructions' names (PTX ISA, chapter 9), beside types.
//!
//! A part may change what an instruction does: `.uni` promises something, `.sat` and `.ftz` change
//! a result, and later versions of PTX add parts. So the verifier refuses each part that is not on
//! the list of its instruction. The order of parts is for ptxas to check.

use super::variable::type_size;

/// Parts of the names of instructions that access memory.
const MEMORY: &[&str] = &[
    "global", "shared", "local", "const", "param", "weak", "relaxed", "acquire", "release", "acq_rel",
    "volatile", "mmio", "cta", "cluster", "gpu", "sys", "nc", "v2", "v4", "v8", "ca", "cg", "cs", "lu", "cv",
    "wb", "wt", "add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas", "noftz",
];
/// Parts of the names of barriers and exchanges.
const TOGETHER: &[&str] = &[
    "sync", "aligned", "red", "popc", "and", "or", "xor", "pred", "idx", "up", "down", "bfly", "any", "all",
    "uni", "ballot", "warp", "add", "min", "max", "cta",
];
/// Sums, products and quotients of integers and floats.
const ARITHMETIC: &[&str] = &["rn", "rz", "rm", "rp", "ftz", "sat", "cc", "lo", "hi", "wide"];
/// Functions of floats.
const FUNCTIONS: &[&str] = &["approx", "full", "rn", "rz", "rm", "rp", "ftz"];
const CONVERSIONS: &[&str] = &[
    "rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat",
];
const COMPARISONS: &[&str] = &[
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
    "num", "nan", "and", "or", "xor", "ftz",
];
const SPACES: &[&str] = &["global", "shared", "local", "const", "param"];

/// The parts of the instruction with this base name: what stands before the first dot. No part for
/// a base name without a list.
fn of_base(base: &str) -> &'static [&'static str] {
    match base {
        "ld" | "ldu" | "st" | "atom" | "red" => MEMORY,
        "bar" | "barrier" | "shfl" | "vote" | "match" | "redux" => TOGETHER,
        "add" | "sub" | "mul" | "mad" | "fma" => ARITHMETIC,
        "addc" | "subc" => &["cc"],
        "madc" => &["cc", "lo", "hi"],
        "mul24" | "mad24" => &["lo", "hi", "sat"],
        "dp2a" => &["lo", "hi"],
        "div" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" => FUNCTIONS,
        "slct" => &["ftz"],
        // `nan_bits.rs` knows what LLVM believes of these forms, and no others.
        "min" | "max" => &["ftz", "NaN"],
        "cvt" => CONVERSIONS,
        "cvta" => &["to", "global", "shared", "local", "const", "param"],
        "isspacep" => SPACES,
        "set" | "setp" => COMPARISONS,
        "testp" => &[
            "finite",
            "infinite",
            "number",
            "notanumber",
            "normal",
            "subnormal",
        ],
        "lop3" => &["and", "or"],
        "shf" => &["l", "r", "wrap", "clamp"],
        "szext" | "bmsk" => &["wrap", "clamp"],
        "bfind" => &["shiftamt"],
        "prmt" => &["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"],
        "fence" => &[
            "sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys",
        ],
        "pmevent" => &["mask"],
        "membar" => &["cta", "gl", "sys"],
        "prefetch" => &["global", "local", "L1", "L2"],
        "prefetchu" => &["L1"],
        "bra" | "call" | "ret" => &["uni"],
        _ => &[],
    }
}

/// Instructions without a type.
const UNTYPED: &[&str] = &[
    "bra",
    "call",
    "ret",
    "exit",
    "trap",
    "fence",
    "membar",
    "prefetch",
    "prefetchu",
    "pmevent",
];

/// Whether the name of an instruction has only known parts.
pub(super) fn are_known(opcode: &str) -> bool {
    let mut parts = opcode.split('.');
    let base = parts.next().unwrap_or("");
    let is_type = |part: &str| !UNTYPED.contains(&base) && type_size(&format!(".{part}")).is_some();
    parts.all(|part| of_base(base).contains(&part) || is_type(part))
}

#[cfg(test)]
mod tests {
    use super::are_known;
    use crate::verify::refused::{OWN, Text};

    #[test]
    fn a_part_that_is_not_on_the_list_of_its_instruction_is_refused() {
        for instruction in [
            "mov.zork.b32 %r1, %r5;",
            "mov.uni.b32 %r1, %r5;",
            "add.uni.s32 %r1, %r5, 1;",
            "min.sat.s32 %r1, %r5, 1;",
            "shl.wrap.b32 %r1, %r5, 1;",
            "setp.eq.zork.s32 %p1, %r5, 1;",
            "cvt.zork.u64.u32 %rd1, %r5;",
            "cvta.zork.global.u64 %rd1, %rd2;",
            "@%p1 ret.zork;",
            "@%p1 exit.zork;",
            "trap.uni;",
            "@%p1 trap.zork;",
            "bra.b32 L;\nL:",
            "fence.sc.u32;",
            "bra.zork L;\nL:",
            "bar.sync.zork 0;",
            "membar.zork;",
            "fence.proxy.alias;",
            "prefetch.tensormap [table];",
            "nanosleep.zork.u32 1;",
            "pmevent.zork 7;",
            "activemask.zork.b32 %r1;",
            "ld.global.zork.u32 %r1, [table];",
        ] {
            let text = format!("{OWN}mov.b64 %rd2, table;\nsetp.eq.s32 %p1, %r5, 3;\n{instruction}");
            Text::of(text).refused("a part in its name");
        }
    }

    #[test]
    fn parts_of_the_instruction_are_accepted() {
        for instruction in [
            "mov.b32 %r1, %r5;",
            "add.sat.s32 %r1, %r5, 1;",
            "mad.lo.s32 %r1, %r5, %r5, 1;",
            "min.ftz.NaN.f32 %r1, %r5, %r5;",
            "setp.gtu.and.f32 %p1, %r5, %r5, %p1;",
            "cvt.rzi.ftz.sat.u32.f32 %r1, %r5;",
            "cvta.to.global.u64 %rd1, %rd2;",
            "fence.acq_rel.gpu;",
            "membar.gl;",
            "prefetch.global.L2 [table];",
            "pmevent 7;",
            "bra.uni L;\nL:",
        ] {
            let text = format!("{OWN}mov.b64 %rd2, table;\nsetp.eq.s32 %p1, %r5, 3;\n{instruction}");
            Text::of(text).accepted();
        }
        assert!(!are_known("unknown.part") && are_known("unknown.b32"));
    }
}
