//! The sizes of variables, and the local memory of a thread.
//!
//! Offsets of LLVM and of NVIDIA's compiler of PTX have 32 bits or fewer, and wrap without a word:
//! beyond, two variables of one function lie at one address, and a frame is shorter than its
//! variables. So no variable may come near this size, and the local memory of a thread has the
//! limit of CUDA.
//!
//! Nor may a variable of the module ask for more alignment than CUDA promises for memory: LLVM
//! takes the low bits of its address for 0, and drops checks of bounds by them.
//!
//! The text shows a size after LLVM has added it up, so a sum may have wrapped before.
//! `kernel-build` compares the types of the LLVM module too (`type_sizes.rs`).

use std::collections::{HashMap, HashSet};

use super::body::{Body, Kind};
use super::error::{Refusal, text};
use super::instruction::callee;
use super::parse::{Function, Module};
use super::variable::{Space, Variable};

/// The most local memory of a thread (CUDA C++ Programming Guide, "Technical Specifications per
/// Compute Capability": 512 KiB on each).
pub(crate) const MOST_LOCAL_BYTES: u64 = 512 << 10;
/// The most bytes of a variable in the GPU's memory: half of what fits LLVM's offsets.
const MOST_GLOBAL_BYTES: u64 = 1 << 30;
/// The alignment of memory that CUDA promises (CUDA C++ Programming Guide, "Device Memory
/// Accesses": 256 bytes at least).
const MOST_ALIGN_BYTES: u64 = 256;
/// The most bytes of constant memory (the same table).
const MOST_CONST_BYTES: u64 = 64 << 10;
/// The most shared memory of a block (the same table).
const MOST_SHARED_BYTES: u64 = 227 << 10;
/// The most bytes of an entry's parameters (PTX ISA, chapter 5, "Kernel Function Parameters").
const MOST_PARAMETER_BYTES: u64 = 32_764;

/// Refuses a module with a variable or with local memory that is too large.
pub(super) fn check(module: &Module<'_>) -> Result<(), Refusal> {
    for variable in &module.variables {
        if variable.align > MOST_ALIGN_BYTES {
            return text(
                variable.line,
                format!(
                    "`{}` is aligned to {} bytes, and {MOST_ALIGN_BYTES} are the most for a static: \
                     give its type a smaller `repr(align)`",
                    readable(variable.name),
                    variable.align
                ),
            );
        }
        let most = match variable.space {
            Space::Const => MOST_CONST_BYTES,
            Space::Shared => MOST_SHARED_BYTES,
            _ => MOST_GLOBAL_BYTES,
        };
        // A `.shared` variable without a size has the one of the launch.
        if variable.space != Space::Shared || variable.size.is_some() {
            at_most(variable, most)?;
        }
    }
    for function in &module.functions {
        let most = if function.is_entry {
            MOST_PARAMETER_BYTES
        } else {
            MOST_LOCAL_BYTES
        };
        let given = function.parameters.iter().chain(&function.results);
        given.into_iter().try_for_each(|given| at_most(given, most))?;
        let shared = function.body.as_ref().map_or(0, |body| body.shared_bytes);
        if shared > MOST_SHARED_BYTES {
            return text(
                0,
                format!(
                    "`{}` declares {shared} bytes of shared memory, and {MOST_SHARED_BYTES} are the most",
                    function.name
                ),
            );
        }
    }
    local_memory(module)
}

fn at_most(variable: &Variable<'_>, most: u64) -> Result<(), Refusal> {
    match variable.size {
        Some(bytes) if bytes <= most => Ok(()),
        bytes => Err(Refusal::VariableTooLarge {
            name: variable.name.to_owned(),
            line: variable.line,
            bytes: bytes.unwrap_or(u64::MAX),
            most,
        }),
    }
}

/// Adds up the local memory of each function and of all functions that it may call. No function is
/// called twice at a time, because none is recursive; so the sum is as large as the deepest stack,
/// or larger.
fn local_memory(module: &Module<'_>) -> Result<(), Refusal> {
    let functions: HashMap<&str, (u64, HashSet<&str>)> = module
        .functions
        .iter()
        .filter_map(|function| Some((function.name, of_function(function)?)))
        .collect();
    for function in module.functions.iter().filter(|function| function.body.is_some()) {
        let mut seen = HashSet::from([function.name]);
        let (mut open, mut sum) = (vec![function.name], 0_u64);
        let mut largest = ("", 0);
        while let Some(name) = open.pop() {
            let Some((bytes, called)) = functions.get(name) else {
                continue;
            };
            sum = sum.saturating_add(*bytes);
            if *bytes > largest.1 {
                largest = (name, *bytes);
            }
            open.extend(called.iter().filter(|called| seen.insert(called)));
        }
        if sum > MOST_LOCAL_BYTES {
            return Err(Refusal::LocalMemoryTooLarge {
                function: readable(function.name),
                bytes: sum,
                most: MOST_LOCAL_BYTES,
                largest: readable(largest.0),
            });
        }
    }
    Ok(())
}

/// The local memory of a function without those that it calls, and their names. Parameters of calls
/// lie there too. Those of an entry do not.
fn of_function<'m>(function: &'m Function<'_>) -> Option<(u64, HashSet<&'m str>)> {
    let body = function.body.as_ref()?;
    let given = function.parameters.len() + function.results.len();
    let first = if function.is_entry { given } else { 0 };
    let variables = (first..body.names.len()).filter(|at| is_local(body, *at));
    let bytes = variables.fold(0_u64, |sum, at| sum.saturating_add(bytes(body, at)));
    let calls = body.instructions().filter(|i| i.opcode.starts_with("call"));
    Some((bytes, calls.filter_map(callee).collect()))
}

fn is_local(body: &Body<'_>, at: usize) -> bool {
    let kind = body.names[at].1;
    matches!(kind, Kind::Variable(Space::Local | Space::Param))
}

/// The bytes of a variable and of the room for its alignment. One without a size is too large.
fn bytes(body: &Body<'_>, at: usize) -> u64 {
    let name = super::body::Name(at);
    let (size, align) = (body.sizes.get(&name), body.aligns.get(&name));
    let room = size.and_then(|size| size.checked_next_multiple_of(*align?));
    room.unwrap_or(u64::MAX)
}

/// The path in a symbol of a function, or the name of a kernel without its entry's hash.
fn readable(symbol: &str) -> String {
    if symbol.starts_with("_R") {
        return crate::statics::readable(symbol);
    }
    symbol
        .rsplit_once("__")
        .map_or(symbol, |(name, _)| name)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{verify, verify_threads};

    /// A module with these variables and functions, whose entry has this body.
    fn module(outside: &str, body: &str) -> String {
        format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n\
             .visible .global .align 8 .u64 __cuda_rt_layout_k__1[4] = {{1, 0, 0, 0}};\n\
             .visible .global .align 8 .u64 __cuda_rt_parameters_k__1[1] = {{34359738392}};\n\
             {outside}\n.visible .entry k__1(.param .align 8 .b8 extent[24]) {{\n{body}\nret;\n}}\n"
        )
    }

    fn accepted(outside: &str, body: &str) {
        let text = module(outside, body);
        verify(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    }

    #[track_caller]
    fn refused(outside: &str, body: &str, words: &str) {
        let text = module(outside, body);
        for verdict in [verify(&text), verify_threads(&text)] {
            let refusal = verdict.expect_err(&text).to_string();
            assert!(refusal.contains(words), "{refusal}\n{text}");
        }
    }

    /// Sizes around the places where 31, 32 and 54 bits end.
    const LARGE: [u64; 10] = [
        (512 << 10) + 1,
        (1 << 30) + 1,
        (1 << 31) - 16,
        1 << 31,
        (1 << 32) - 8,
        1 << 32,
        (1 << 32) + 16,
        1 << 33,
        (1 << 54) + 1,
        u64::MAX,
    ];

    #[test]
    fn local_memory_above_the_limit_is_refused() {
        for bytes in LARGE {
            refused("", &format!(".local .align 8 .b8 depot[{bytes}];"), "`k`");
            let text = format!(".func f() {{ .local .align 8 .b8 depot[{bytes}]; ret; }}");
            refused(&text, "call.uni f, ();", "`f`");
            // Nobody calls it.
            refused(&text, "", "524288");
        }
        refused("", ".local .b64 depot[4294967296][4294967296];", "depot");
        refused("", ".local .b64 depot[65537];", "524296 bytes");
        refused("", ".local .align 1048576 .b8 depot[1];", "1048576 bytes");
        refused("", ".local .b8 depot[];", "`k`");
        refused(
            "",
            ".local .b8 depot[18446744073709551616];",
            "expected a decimal number",
        );
        refused("", ".local .b8 depot[-16];", "");
        refused(
            "",
            ".shared .b8 a[131072];\n.shared .b8 b[131072];",
            "262144 bytes of shared memory",
        );
        refused("", ".local .b8 a[262145];\n.local .b8 b[262144];", "524289 bytes");
        accepted("", ".local .b8 a[262144];\n.local .b8 b[262144];");
    }

    #[test]
    fn statics_of_large_alignment_are_refused() {
        for space in [".global", ".const", ".shared"] {
            let table = |align: u64| format!("{space} .align {align} .b8 table[512];");
            for align in [512, 4096, 67_108_864] {
                let words = format!("is aligned to {align} bytes");
                refused(&table(align), "", &words);
            }
            if space != ".shared" {
                accepted(&table(256).replace("[512]", "[4] = {1, 2, 3, 4}"), "");
            }
        }
    }

    #[test]
    fn local_memory_of_called_functions_counts() {
        let f = |name: &str, bytes: u64, body: &str| {
            format!(".func {name}() {{ .local .align 8 .b8 depot[{bytes}]; {body} ret; }}\n")
        };
        let (inner, outer) = (
            f("inner", 200 << 10, ""),
            f("outer", 200 << 10, "call.uni inner, ();"),
        );
        let own = ".local .align 8 .b8 depot[131072];\ncall.uni outer, ();";
        refused(&format!("{inner}{outer}"), own, "540672 bytes");
        accepted(&format!("{inner}{outer}"), &own.replace("131072", "114688"));
        // Functions of which none calls the other share the memory of a thread.
        let others: String = (0..8).map(|at| f(&format!("f{at}"), 400 << 10, "")).collect();
        accepted(&others, "");
    }

    #[test]
    fn parameters_of_calls_count() {
        let parameter = |bytes: u64| format!("{{ .param .align 8 .b8 a[{bytes}]; }}");
        for bytes in LARGE {
            refused("", &parameter(bytes), "`k`");
            refused(
                &format!(".func f(.param .align 8 .b8 a[{bytes}]) {{ ret; }}"),
                "",
                "`a`",
            );
            refused(&format!(".func (.param .align 8 .b8 a[{bytes}]) f();"), "", "`a`");
            refused(
                &format!(".entry other(.param .align 8 .b8 a[{bytes}]) {{ ret; }}"),
                "",
                "`a`",
            );
        }
        accepted("", &parameter(4096));
        refused(".entry other(.param .align 4 .b8 a[32768]) { ret; }", "", "32764");
    }

    #[test]
    fn variables_of_the_module_above_the_limits_are_refused() {
        for bytes in &LARGE[1..] {
            for space in [".global", ".const", ".shared"] {
                let text = format!("{space} .align 4 .b8 table[{bytes}];");
                refused(&text, "", "`table`");
            }
        }
        refused(".const .align 4 .b8 table[65540] = {1};", "", "65536");
        refused(".shared .align 4 .b8 table[232449];", "", "232448");
        refused(".global .align 4 .b8 table[];", "", "`table`");
        accepted(".global .align 4 .b8 table[1048576] = {1};", "");
        accepted(".extern .shared .align 16 .b8 table[];", "");
    }
}
