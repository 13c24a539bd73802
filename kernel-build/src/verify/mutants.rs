//! Proves the committed kernels. Then deletes, doubles, guards or moves their barriers and
//! exchanges, one at a time: the verifier must refuse every kernel in which two threads diverge.

use std::collections::BTreeMap;
use std::path::Path;

use super::check::Checker;
use super::oracle::diverges;
use super::parse::{Function, Module};
use super::{verify, verify_threads};

/// Texts of PTX, with the number of entries and the least number of barriers and exchanges.
pub(super) const PROVED: [(&str, usize, usize, usize); 4] = [
    ("device-kernels/ptx/device_kernels.ptx", 71, 200, 500),
    ("device-std/tests/kernels/ptx/library_kernels.ptx", 200, 150, 400),
    ("device-std/tests/panics/ptx/panicking_kernels.ptx", 2, 0, 0),
    ("templates/program/kernels/kernels.ptx", 1, 0, 0),
];

pub(super) fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn all_committed_kernels_are_proved() {
    for (path, entries, barriers, exchanges) in PROVED {
        let verified = verify(&read(path)).unwrap_or_else(|refusal| panic!("{path}: {refusal}"));
        let count = |of: fn(&super::Proved) -> usize| {
            verified
                .entries
                .iter()
                .map(|(_, proved)| of(proved))
                .sum::<usize>()
        };
        assert_eq!(verified.entries.len(), entries, "{path}");
        assert!(
            count(|p| p.barriers) >= barriers && count(|p| p.exchanges) >= exchanges,
            "{path}"
        );
    }
}

/// Kernels written by hand or by nvcc, and launched as foreign kernels. The verifier proves their
/// barriers, but not their memory.
#[test]
fn barriers_of_foreign_kernels_are_proved() {
    for path in [
        "examples/cuda-std/kernels.ptx",
        "examples/from-cust/square.ptx",
        "examples/cublas_gemm/bias_relu.ptx",
        "cuda-rt/tests/conformance/kernels.ptx",
        "cuda-rt/tests/conformance/architectures.ptx",
        "cuda-rt/tests/rustacuda/settings.ptx",
    ] {
        verify_threads(&read(path)).unwrap_or_else(|refusal| panic!("{path}: {refusal}"));
    }
}

/// PTX that the compiler made from safe code, before the build refused it.
#[test]
fn kernels_whose_threads_diverge_are_refused() {
    for (path, entries) in [("nan_of_two_values", 1), ("statics_made_registers", 3)] {
        let text = read(&format!("kernel-build/tests/ptx/{path}.ptx"));
        let texts = split(&text);
        let refused = texts
            .iter()
            .filter(|text| verify_threads(text).is_err_and(|refusal| refusal.to_string().contains("H32")));
        let refused = refused.count();
        // In one kernel with statics, all threads meet the barriers, but they see different memory.
        assert_eq!(
            (texts.len(), refused),
            (entries, if entries == 3 { 2 } else { 1 }),
            "{path}"
        );
    }
}

/// Splits a text into one text for each entry; each holds everything outside of the entries too.
pub(super) fn split(text: &str) -> Vec<String> {
    let starts: Vec<usize> = text.match_indices(".visible .entry").map(|(at, _)| at).collect();
    let end_of = |start: usize| start + text[start..].find("\n}\n").unwrap() + 3;
    let mut outside = String::new();
    let mut at = 0;
    for start in &starts {
        outside.push_str(&text[at..*start]);
        at = end_of(*start);
    }
    outside.push_str(&text[at..]);
    starts
        .iter()
        .map(|start| format!("{outside}\n{}", &text[*start..end_of(*start)]))
        .collect()
}

/// Each kernel with shared memory marks its openings. If one thread leaves a mark out, the verifier
/// refuses the kernel.
#[test]
fn openings_of_shared_memory_are_marked() {
    let mut marks = 0;
    for path in [PROVED[0].0, PROVED[1].0] {
        for text in split(&read(path)) {
            let lines: Vec<&str> = text.lines().collect();
            let is_mark = |line: &&str| line.contains(".reg .b64 cuda_rt_same_");
            let opens = lines.iter().filter(|line| is_mark(line)).count();
            let accesses = ["ld.shared", "st.shared", "atom.", "red."];
            let is_access = |line: &str| {
                accesses.iter().any(|name| line.trim_start().starts_with(name)) && line.contains(".shared")
            };
            let uses_shared_memory = lines.iter().any(|line| is_access(line));
            assert!(opens > 0 || !uses_shared_memory, "{text}");
            marks += opens;
            // Changes the first and the last mark of each kernel.
            let mut at = (0..lines.len()).filter(|at| is_mark(&lines[*at]));
            for at in [at.next(), at.next_back()].into_iter().flatten() {
                let guarded = format!(
                    "{{ .reg .b32 %mutant; .reg .pred %guard; mov.u32 %mutant, %tid.x; setp.eq.s32 %guard, %mutant, 0; \
                     @%guard bra $mutant; {} $mutant: }}",
                    lines[at]
                );
                let mut mutant = lines.clone();
                mutant[at] = &guarded;
                let refusal = verify(&mutant.join("\n")).unwrap_err().to_string();
                assert!(
                    refusal.contains("cuda_rt_same_") && refusal.contains("of the block"),
                    "{refusal}"
                );
            }
        }
    }
    assert!(marks >= 70, "{marks}");
}

fn is_together(line: &str) -> bool {
    ["bar.", "shfl.", "vote.", "match.", "redux."]
        .iter()
        .any(|name| line.trim_start().starts_with(name))
}

fn is_instruction(line: &str) -> bool {
    let line = line.trim();
    line.ends_with(';') && line.starts_with(|c: char| c.is_ascii_lowercase() || c == '@')
}

/// The results for one kind of mutant.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    refused: usize,
    /// Accepted, and the threads of no run diverge.
    accepted: usize,
    /// The threads of some run diverge.
    diverged: usize,
}

/// Changes one line at a time, and compares the proof with the runs.
#[test]
fn mutants_whose_threads_diverge_are_refused() {
    let mut outcomes: BTreeMap<&str, Outcome> = BTreeMap::new();
    let library = read("device-std/tests/kernels/ptx/library_kernels.ptx");
    let shipped = read("device-kernels/ptx/device_kernels.ptx");
    let kernels = [
        "votes",
        "rounds",
        "block_sum_f32",
        "exclusive_sum_u64",
        "shared_atomic_u32",
        "warp_any_large",
        "match_u32",
        "shuffle_from_u32",
    ];
    let chosen = split(&library)
        .into_iter()
        .filter(|text| kernels.iter().any(|k| text.contains(&format!(".entry {k}__"))));
    // A run takes branches by chance, so few runs reach the barriers of kernels that check much.
    let long = ["softmax_", "layer_norm_", "inclusive_scan_", "exclusive_scan_"];
    let is_long = |text: &str| long.iter().any(|name| text.contains(&format!(".entry {name}")));
    let texts: Vec<String> = split(&shipped)
        .into_iter()
        .filter(|text| text.lines().any(is_together) && !is_long(text))
        .chain(chosen)
        .collect();
    assert!(texts.len() >= 10, "{}", texts.len());
    for text in &texts {
        let lines: Vec<&str> = text.lines().collect();
        let first = lines.iter().position(|line| line.contains(".entry")).unwrap();
        let places: Vec<usize> = (first..lines.len())
            .filter(|at| is_instruction(lines[*at]))
            .collect();
        let targets = (first..lines.len()).filter(|at| is_together(lines[*at]));
        for (number, target) in targets.enumerate() {
            let own = format!(
                ".reg .b32 %mutant; .reg .pred %guard; mov.u32 %mutant, %tid.x; setp.eq.s32 %guard, %mutant, 0; @%guard {}",
                lines[target].trim()
            );
            let all = own.replace("%tid.x", "%ctaid.x");
            let mut change = |kind: &'static str, changes: &[(usize, &str)]| {
                let mut mutant = lines.clone();
                for (at, line) in changes {
                    mutant[*at] = line;
                }
                let outcome = outcomes.entry(kind).or_default();
                judge(&mutant.join("\n"), kind, outcome);
            };
            let twice = format!("{}\n{}", lines[target], lines[target]);
            change("deleted", &[(target, "")]);
            change("doubled", &[(target, &twice)]);
            change("guarded by the thread", &[(target, &own)]);
            change("guarded by the block", &[(target, &all)]);
            // Tries many places for the first target of a text, and some for the others.
            let step = if number == 0 { 3 } else { 41 };
            for place in places
                .iter()
                .copied()
                .filter(|place| *place != target)
                .step_by(step)
            {
                let before = format!("{}\n{}", lines[target], lines[place]);
                change("moved", &[(target, ""), (place, &before)]);
            }
        }
    }
    println!("{} kernels, {outcomes:#?}", texts.len());
    // The runs find every divergence that the proof finds.
    assert_eq!(
        outcomes["guarded by the thread"].diverged,
        outcomes["guarded by the thread"].refused
    );
    assert_eq!(outcomes["guarded by the thread"].accepted, 0);
    assert!(
        outcomes["moved"].refused > 100 && outcomes["moved"].accepted > 100,
        "{outcomes:?}"
    );
    assert_eq!(outcomes["doubled"].refused, 0);
}

/// The first entry of the module.
pub(super) fn entry<'m, 'a>(module: &'m Module<'a>) -> &'m Function<'a> {
    let mut functions = module.functions.iter();
    functions.find(|function| function.is_entry).unwrap()
}

fn judge(text: &str, kind: &str, outcome: &mut Outcome) {
    // The runs use the text with its own registers.
    let modules = Module::parse(text).unwrap();
    let checker = Checker::new(&modules[0]).unwrap();
    let entry = entry(&modules[0]);
    let (body, graph) = (entry.body.as_ref().unwrap(), checker.graph(entry.name).unwrap());
    let do_diverge = diverges(body, graph, 60);
    let is_refused = verify_threads(text).is_err();
    if is_refused {
        outcome.refused += 1;
    } else {
        outcome.accepted += 1;
    }
    outcome.diverged += usize::from(do_diverge);
    assert!(
        !do_diverge || is_refused,
        "accepted, though threads diverge: {kind}\n{text}"
    );
}
