//! The table of hazards, for a terminal and for `docs/hazards.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::tree::Tree;
use super::{Hazard, Way};

const INTRODUCTION: &str = "\
# Hazards

`cargo xtask hazards` writes this page, and fails if a case, a twin or a program is missing. The list
of hazards is [`ui-tests/hazards.txt`](../ui-tests/hazards.txt).

*Cases* are programs that must not compile; beside each lies rustc's message. *Twins* are the
corrected programs, which run. *Raw programs* are the same races as sequences of CUDA calls, in
[`programs.jsonl`](../cuda-rt/tests/litmus/programs.jsonl). The checker reports the race in one
program, and nothing in the mended program. The errors are rustc's error codes and three words.
`lifetime` is an error about lifetimes, which has no code. `lint` is the crate's
`#![forbid(unsafe_code)]`. `macro` is an error of one of cuda-rt's macros.
";

/// The columns of a line of documentation in Rust, after `//! `.
const DOCUMENT_WIDTH: usize = 96;

const MODULE: &str = "\
//! The hazards that the types of this project prevent, by number: what would go wrong, and how it
//! is refused.
//!
//! The documentation of an item names under \"Hazards prevented\" the hazards that the item
//! prevents. This module holds no code. `cargo xtask hazards` writes it, from
//! `ui-tests/hazards.txt`.
";

/// The table as text for a terminal.
pub(super) fn text(hazards: &[Hazard], tree: &Tree) -> String {
    let mut out = String::new();
    for hazard in hazards {
        let number = &hazard.number;
        line(
            &mut out,
            &format!("{number}  {}: {}", hazard.title, hazard.refusal()),
        );
        for (name, case, _) in tree.cases_of(number) {
            line(
                &mut out,
                &format!(
                    "     case  {name}  {}  twin {}",
                    words(&case.refusals),
                    case.twin(name)
                ),
            );
        }
        for twin in lone_twins(tree, number) {
            line(&mut out, &format!("     twin  {twin}"));
        }
        for (file, name) in tree.tests_of(number) {
            line(&mut out, &format!("     test  {name}  {file}"));
        }
        for program in tree.programs_of(number) {
            line(
                &mut out,
                &format!("     raw   {}  {}", program.id, program.verdict),
            );
        }
    }
    line(&mut out, &summary(hazards, tree));
    out
}

/// The page, `docs/hazards.md`.
pub(super) fn markdown(hazards: &[Hazard], tree: &Tree) -> String {
    let mut out = INTRODUCTION.to_owned();
    line(&mut out, &format!("\n{}\n", summary(hazards, tree)));
    line(
        &mut out,
        "| | what happens | refused | errors | cases | twins | raw programs |",
    );
    line(&mut out, "|---|---|---|---|---|---|---|");
    for hazard in hazards {
        let number = &hazard.number;
        let codes = tree
            .cases_of(number)
            .flat_map(|(_, case, _)| case.refusals.clone())
            .collect();
        let row = format!(
            "| [{number}](#{}) | {} | {} | {} | {} | {} | {} |",
            number.to_lowercase(),
            hazard.title,
            hazard.refusal(),
            words(&codes),
            tree.cases_of(number).count(),
            tree.twins_of(number).len(),
            tree.programs_of(number).count(),
        );
        line(&mut out, &row);
    }
    let mut section = "";
    for hazard in hazards {
        if hazard.section != section {
            section = &hazard.section;
            line(&mut out, &format!("\n## {section}"));
        }
        details(&mut out, hazard, tree);
    }
    out
}

/// The module to whose headings the documentation of items links: `device_std::hazards`.
pub(super) fn module(hazards: &[Hazard]) -> String {
    let mut out = MODULE.to_owned();
    let mut section = "";
    for hazard in hazards {
        if hazard.section != section {
            section = &hazard.section;
            line(&mut out, &format!("//!\n//! # {section}"));
        }
        line(&mut out, &format!("//!\n//! ## {}\n//!", hazard.number));
        let sentence = format!("{}: {}.", sentence_case(&hazard.title), hazard.refusal());
        for words in wrapped(&sentence, DOCUMENT_WIDTH) {
            line(&mut out, &format!("//! {words}"));
        }
    }
    out
}

/// The text with a capital letter at its start.
fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The text in lines of at most `width` columns, unless a word is longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn details(out: &mut String, hazard: &Hazard, tree: &Tree) {
    let number = &hazard.number;
    let kind = hazard.refusal();
    // The heading is the number alone, so that the link to it stays.
    line(out, &format!("\n### {number}\n\n{}: {kind}.\n", hazard.title));
    for (name, case, header) in tree.cases_of(number) {
        let twin = case.twin(name);
        let row = format!(
            "- [`{name}`](../ui-tests/cases/{name}.rs) ([{}](../ui-tests/cases/{name}.stderr)): {} [Twin](../ui-tests/twins/{twin}.rs).",
            words(&case.refusals),
            header.reason,
        );
        line(out, &row);
    }
    for twin in lone_twins(tree, number) {
        line(out, &format!("- Runs: [`{twin}`](../ui-tests/twins/{twin}.rs)."));
    }
    for (file, name) in tree.tests_of(number) {
        line(out, &format!("- Test: `{name}`, in [{file}](../{file})."));
    }
    for program in tree.programs_of(number) {
        line(
            out,
            &format!(
                "- Raw, {}: `{}`, {}.",
                program.verdict, program.id, program.description
            ),
        );
    }
}

/// Twins with the hazard's number that belong to no case.
fn lone_twins<'a>(tree: &'a Tree, number: &'a str) -> impl Iterator<Item = &'a String> {
    let twins = tree.twins_named_after(number);
    twins.filter(|twin| !tree.cases.contains_key(*twin))
}

fn summary(hazards: &[Hazard], tree: &Tree) -> String {
    let missing: Vec<&str> = hazards
        .iter()
        .filter(|hazard| hazard.is(Way::NotYet))
        .map(|hazard| hazard.number.as_str())
        .collect();
    let untagged = tree
        .programs
        .iter()
        .filter(|program| program.hazards.is_empty())
        .count();
    let not_yet = match &missing[..] {
        [] => String::new(),
        _ => format!("; not there yet: {} ({})", missing.len(), missing.join(", ")),
    };
    format!(
        "{} hazards, {} cases, {} twins, {} raw programs ({untagged} of no hazard){not_yet}.",
        hazards.len(),
        tree.cases.len(),
        tree.twins.len(),
        tree.programs.len(),
    )
}

fn words(refusals: &BTreeSet<String>) -> String {
    refusals.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a String takes all");
}
