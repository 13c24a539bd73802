//! Changes operands and declarations of the committed kernels at random. The verifier must refuse
//! every mutant in which threads diverge, or which writes memory that a kernel must not change.

use std::collections::BTreeMap;

use super::check::Checker;
use super::memory_oracle::forbidden_write;
use super::mutants::{PROVED, entry, read, split};
use super::oracle::diverges;
use super::parameters;
use super::parse::Module;
use super::verify;

/// Mutants for each kernel.
const MUTANTS: u64 = 20;

/// A generator of random numbers (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit.max(1) as u64).unwrap_or(0)
    }

    pub(super) fn of<'t>(&mut self, from: &[&'t str]) -> Option<&'t str> {
        (!from.is_empty()).then(|| from[self.below(from.len())])
    }
}

/// The registers of this class in a text, `%rd` for example.
fn registers<'t>(text: &'t str, class: &str) -> Vec<&'t str> {
    let is_word = |c: char| !(c.is_ascii_alphanumeric() || c == '%');
    let words = text.split(is_word).filter(|word| {
        let index = word.strip_prefix(class);
        index.is_some_and(|index| !index.is_empty() && index.chars().all(|c| c.is_ascii_digit()))
    });
    let mut words: Vec<&str> = words.collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// The verdict that does not need a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The text has a form that the verifier must not know.
    Refused,
    /// The runs decide.
    Runs,
}

/// A changed line, and the changed text's verdict.
fn mutate(random: &mut Random, kind: &str, body: &str, line: &str) -> Option<(String, Verdict)> {
    let line = line.trim();
    let (opcode, operands) = line.trim_end_matches(';').split_once(char::is_whitespace)?;
    let mut words: Vec<&str> = operands.split(", ").map(str::trim).collect();
    let read = 1 + random.below(words.len().saturating_sub(1));
    let is_plain =
        |word: &&str| word.starts_with('%') && word[1..].chars().all(|c| c.is_ascii_alphanumeric());
    let class = |word: &str| word.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let (wide, predicates) = (registers(body, "%rd"), registers(body, "%p"));
    let is_write = [
        "st.global",
        "atom.global",
        "atom.relaxed",
        "st.shared",
        "st.local",
        "red.",
    ]
    .iter()
    .any(|start| opcode.starts_with(start));
    let base = || {
        let at = operands.find('[')? + 1;
        let end = at + operands[at..].find(['+', ']'])?;
        operands[at..end].starts_with("%rd").then_some((at, end))
    };
    let moved = |to: &str| {
        let (at, end) = base()?;
        Some(format!("{opcode} {}{to}{};", &operands[..at], &operands[end..]))
    };
    Some(match kind {
        "operand is a special register" => {
            let word = words
                .get(read)
                .filter(|word| is_plain(word) && !opcode.starts_with("mov"))?;
            let changed = operands.replacen(*word, "%tid.x", 1);
            let is_read = changed.split(", ").next() == Some(words[0]);
            (
                format!("{opcode} {changed};"),
                is_read.then_some(Verdict::Refused)?,
            )
        }
        "operand is an unknown word" => {
            words.get(read).filter(|word| is_plain(word))?;
            words[read] = ["word", "%word", "%v.x"][random.below(3)];
            (format!("{opcode} {};", words.join(", ")), Verdict::Refused)
        }
        "operand is another register" => {
            let word = words.get(read).filter(|word| is_plain(word))?;
            let others = registers(body, &class(word));
            words[read] = random.of(&others)?;
            (format!("{opcode} {};", words.join(", ")), Verdict::Runs)
        }
        "operand is a number" => {
            words
                .get(read)
                .filter(|word| is_plain(word) && !word.starts_with("%p"))?;
            words[read] = "0";
            (format!("{opcode} {};", words.join(", ")), Verdict::Runs)
        }
        "register of two elements" => {
            let word = words
                .get(read)
                .filter(|word| word.starts_with("%r") && is_plain(word))?;
            let (bits, word) = (if word.starts_with("%rd") { 64 } else { 32 }, *word);
            let wrapped = format!(
                "{{ .reg .v2 .b{bits} %v; mov.b{bits} %v.x, {word}; mov.b{bits} {word}, %v.x; }}\n{line}"
            );
            (wrapped, Verdict::Refused)
        }
        "register declared twice" => (format!(".reg .b64 %rd<9999>;\n{line}"), Verdict::Refused),
        "write by another address" if is_write => (moved(random.of(&wide)?)?, Verdict::Runs),
        "write by a chosen address" if is_write => {
            let ((at, end), other, by) = (base()?, random.of(&wide)?, random.of(&predicates)?);
            let chosen = [
                format!("selp.b64 %mutant, {other}, {}, {by};", &operands[at..end]),
                format!(
                    "mov.b64 %mutant, {}; @{by} mov.b64 %mutant, {other};",
                    &operands[at..end]
                ),
                format!("max.u64 %mutant, {}, {other};", &operands[at..end]),
            ];
            let chosen = &chosen[random.below(3)];
            (
                format!("{{ .reg .b64 %mutant; {chosen}\n{} }}", moved("%mutant")?),
                Verdict::Runs,
            )
        }
        "write by an exchanged address" if is_write => {
            let other = random.of(&wide)?;
            let exchanged = format!(
                "{{ .reg .b64 %mutant; .reg .b32 %low; .reg .b32 %high; mov.b64 {{%low, %high}}, {other}; \
                 shfl.sync.idx.b32 %low, %low, 0, 31, -1; shfl.sync.idx.b32 %high, %high, 0, 31, -1; \
                 mov.b64 %mutant, {{%low, %high}};\n{} }}",
                moved("%mutant")?
            );
            (exchanged, Verdict::Runs)
        }
        "load becomes a write" if opcode.starts_with("ld.global") && words.len() == 2 => {
            let opcode = opcode.replacen("ld.", "st.", 1).replace(".nc", "");
            (format!("{opcode} {}, {};", words[1], words[0]), Verdict::Runs)
        }
        _ => return None,
    })
}

const KINDS: [&str; 10] = [
    "operand is a special register",
    "operand is an unknown word",
    "operand is another register",
    "operand is a number",
    "register of two elements",
    "register declared twice",
    "write by another address",
    "write by a chosen address",
    "write by an exchanged address",
    "load becomes a write",
];

#[derive(Debug, Default)]
struct Outcome {
    refused: usize,
    accepted: usize,
    /// Refused, and a run writes what it must not, or threads of a run diverge.
    wrong: usize,
}

fn is_wrong(text: &str) -> bool {
    // The runs use the text with its own registers.
    let Ok(modules) = Module::parse(text) else {
        return false;
    };
    let Ok(checker) = Checker::new(&modules[0]) else {
        return false;
    };
    let entry = entry(&modules[0]);
    let (body, graph) = (entry.body.as_ref().unwrap(), checker.graph(entry.name).unwrap());
    let roles = parameters::compare(&modules[0], entry).unwrap();
    diverges(body, graph, 12) || forbidden_write(&modules[0], body, graph, &roles, 40).is_some()
}

#[test]
fn mutants_of_operands_that_are_wrong_are_refused() {
    let mut outcomes: BTreeMap<&str, Outcome> = BTreeMap::new();
    let texts = [PROVED[0].0, PROVED[1].0]
        .into_iter()
        .flat_map(|path| split(&read(path)));
    // All kernels of `device-kernels`, and some of the library's, so that the test stays short.
    let texts = texts
        .enumerate()
        .filter(|(at, _)| *at < PROVED[0].1 || at % 6 == 0);
    for (seed, text) in texts {
        assert!(
            !is_wrong(&text),
            "the runs find a committed kernel wrong:\n{text}"
        );
        let lines: Vec<&str> = text.lines().collect();
        let first = lines.iter().position(|line| line.contains(".entry")).unwrap();
        let end = first + lines[first..].iter().position(|line| *line == "}").unwrap();
        let body = lines[first..end].join("\n");
        let mut random = Random(seed as u64);
        let is_instruction = |line: &str| {
            let line = line.trim();
            line.ends_with(';') && line.starts_with(|c: char| c.is_ascii_lowercase())
        };
        let places: Vec<usize> = (first..end).filter(|at| is_instruction(lines[*at])).collect();
        for _ in 0..MUTANTS {
            let kind = KINDS[random.below(KINDS.len())];
            // Some kinds fit few instructions.
            let changed = (0..60).find_map(|_| {
                let place = match kind {
                    // An inner scope may declare the register again.
                    "register declared twice" => places[0],
                    _ => places[random.below(places.len())],
                };
                mutate(&mut random, kind, &body, lines[place]).map(|changed| (place, changed))
            });
            let Some((place, (line, verdict))) = changed else {
                continue;
            };
            let mut mutant = lines.clone();
            mutant[place] = &line;
            let mutant = mutant.join("\n");
            let outcome = outcomes.entry(kind).or_default();
            let is_wrong = verdict == Verdict::Refused || is_wrong(&mutant);
            let is_refused = verify(&mutant).is_err();
            outcome.refused += usize::from(is_refused);
            outcome.accepted += usize::from(!is_refused);
            outcome.wrong += usize::from(is_wrong);
            assert!(
                is_refused || !is_wrong,
                "accepted, though it is wrong: {kind}: {line}\n{body}"
            );
        }
    }
    println!("{outcomes:#?}");
    for kind in KINDS {
        let outcome = &outcomes[kind];
        assert!(outcome.wrong >= 1, "{kind}: {outcome:?}");
    }
    for kind in [
        "operand is another register",
        "operand is a number",
        "write by another address",
    ] {
        assert!(outcomes[kind].accepted >= 2, "{kind}: {outcomes:?}");
    }
}
