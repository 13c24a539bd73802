//! `cargo xtask invariants --check`: checks that everything that a comment cites exists.
//!
//! An invariant has a unique name, for example `BUFFER-2`. A comment next to its fields defines it:
//! a line there begins with the name, `BUFFER-2. Every use …`. Comments,
//! [docs/soundness.md](../../docs/soundness.md) and the descriptions of mutants cite it by this
//! name. Comments cite obligations of docs/soundness.md by number, and documents by path. The task
//! also checks that the tests that documents name exist.

mod cited_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOUNDNESS: &str = "docs/soundness.md";
/// Other names with the form of an invariant's name.
const OTHERS: &[&str] = &["UTF", "SHA", "IEEE", "CUDA", "RGB", "BT"];

pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let root = root();
    let mut found = Citations::default();
    let soundness = fs::read_to_string(root.join(SOUNDNESS))?;
    let obligations: BTreeSet<u32> = soundness.lines().filter_map(obligation_of).collect();
    let files = files()?;
    for file in &files {
        let text = fs::read_to_string(root.join(file))?;
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => found.read_source(file, &text),
            _ => found.read_text(file, &text),
        }
    }
    let exists = |from: &Path, path: &str| {
        let mut folders = from.ancestors().skip(1).chain([Path::new("docs")]);
        folders.any(|folder| root.join(folder).join(path).is_file())
    };
    let mut wrong = found.wrong(&obligations, exists);
    wrong.extend(cited_tests::wrong(root, &files)?);
    if wrong.is_empty() && found.defined.is_empty() {
        return Err("no comment defines an invariant: has the form of definitions changed?".into());
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

fn files() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--"])
        .args(["*.rs", "*.edit", SOUNDNESS])
        .current_dir(root())
        .output()?;
    if !listed.status.success() {
        return Err("`git ls-files` cannot list the files of the tree".into());
    }
    let listed = String::from_utf8(listed.stdout)?;
    // This file's own examples define and cite nothing.
    let files = listed.lines().filter(|file| *file != "xtask/src/invariants.rs");
    let files = files.map(PathBuf::from);
    Ok(files.filter(|file| root().join(file).is_file()).collect())
}

/// The number of the obligation with this heading.
fn obligation_of(line: &str) -> Option<u32> {
    let (number, _) = line.strip_prefix("### ")?.split_once(". ")?;
    number.parse().ok()
}

/// A file and a line number, from 1.
type Place = (PathBuf, usize);

#[derive(Debug, Default)]
struct Citations {
    defined: BTreeMap<String, Vec<Place>>,
    cited: BTreeMap<String, Vec<Place>>,
    obligations: Vec<(u32, Place)>,
    documents: Vec<(String, Place)>,
    /// Definitions with names that are not unique: `B1`, or a number alone.
    short: Vec<(String, Place)>,
}

impl Citations {
    fn read_source(&mut self, file: &Path, text: &str) {
        let mut in_invariants = false;
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = comment_of(line) else {
                in_invariants = false;
                continue;
            };
            let place = (file.to_owned(), number + 1);
            if let Some(heading) = comment.strip_prefix("# ") {
                in_invariants = heading.starts_with("Invariant");
            }
            let listed = comment.split_once(". ").map_or("", |(first, _)| first);
            if in_invariants && listed.parse::<u32>().is_ok() {
                self.short.push((listed.to_owned(), place.clone()));
            }
            self.short
                .extend(numbered_in(comment).map(|name| (name, place.clone())));
            // A line with a name alone cites it, as in a contract: `/// # Safety`, `/// BUFFER-1.`
            let item = comment.strip_prefix("- ").unwrap_or(comment);
            let first = item.split_once(' ').map_or("", |(first, _)| first);
            if let Some(name) = first.strip_suffix('.') {
                if is_invariant(name) {
                    self.defined
                        .entry(name.to_owned())
                        .or_default()
                        .push(place.clone());
                } else if is_short(name) {
                    self.short.push((name.to_owned(), place.clone()));
                }
            }
            let documents = words(comment).filter(|word| word.ends_with(".md"));
            self.documents
                .extend(documents.map(|word| (word.to_owned(), place.clone())));
            self.obligations
                .extend(obligations_in(comment).map(|number| (number, place.clone())));
            self.cite(comment, &place);
        }
    }

    fn read_text(&mut self, file: &Path, text: &str) {
        for (number, line) in text.lines().enumerate() {
            self.cite(line, &(file.to_owned(), number + 1));
        }
    }

    fn cite(&mut self, text: &str, place: &Place) {
        for name in words(text).filter(|word| is_invariant(word)) {
            self.cited.entry(name.to_owned()).or_default().push(place.clone());
        }
    }

    /// The errors, a line for each.
    fn wrong(&self, obligations: &BTreeSet<u32>, exists: impl Fn(&Path, &str) -> bool) -> Vec<String> {
        let at = |(file, line): &Place| format!("{}:{line}", file.display());
        let mut wrong = Vec::new();
        for (name, places) in &self.defined {
            if let [_, again, ..] = places.as_slice() {
                wrong.push(format!(
                    "{}: {name} is defined again; first in {}",
                    at(again),
                    at(&places[0])
                ));
            }
        }
        for (name, places) in &self.cited {
            if !self.defined.contains_key(name) {
                wrong.push(format!("{}: {name} is defined nowhere", at(&places[0])));
            }
        }
        for (name, place) in &self.short {
            wrong.push(format!(
                "{}: call {name} by a name of its own, as `BUFFER-1`",
                at(place)
            ));
        }
        for (number, place) in &self.obligations {
            if !obligations.contains(number) {
                wrong.push(format!("{}: {SOUNDNESS} has no obligation {number}", at(place)));
            }
        }
        for (path, place) in &self.documents {
            if !exists(&place.0, path) {
                wrong.push(format!("{}: there is no {path}", at(place)));
            }
        }
        wrong
    }
}

/// The comment of a line: the text after `//`, `///` or `//!`.
fn comment_of(line: &str) -> Option<&str> {
    let (_, comment) = line.split_once("//")?;
    Some(comment.trim_start_matches(['/', '!']).trim_start())
}

/// The words of a text: runs of letters, digits and the marks inside names and paths, without marks
/// at the end of a sentence.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_alphanumeric() || "-_./".contains(letter)))
        .map(|word| word.trim_matches(['.', '-', '/']))
        .filter(|word| !word.is_empty())
}

/// Whether a word has an invariant's form, words of capitals and a number: `BUFFER-2`,
/// `EVENT-LEASE-1`.
fn is_invariant(word: &str) -> bool {
    let Some((name, number)) = word.rsplit_once('-') else {
        return false;
    };
    let capital = |part: &str| part.len() > 1 && part.bytes().all(|byte| byte.is_ascii_uppercase());
    name.split('-').all(capital)
        && !OTHERS.contains(&name)
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word is a letter and a number, as `B2`: too short for a unique name.
fn is_short(word: &str) -> bool {
    let (letter, number) = word.split_at_checked(1).unwrap_or_default();
    letter.bytes().all(|byte| byte.is_ascii_uppercase())
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The citations in a comment by a number alone, as "invariant 2" and "Invariants 1 to 3".
fn numbered_in(comment: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = words(comment).collect();
    let pairs = words.windows(2).filter(|pair| {
        let named = ["invariant", "invariants"].contains(&pair[0].to_lowercase().as_str());
        named && pair[1].parse::<u32>().is_ok()
    });
    let found: Vec<String> = pairs.map(|pair| pair.join(" ")).collect();
    found.into_iter()
}

/// The numbers in "obligation 4" and "obligations 6 and 14".
fn obligations_in(comment: &str) -> impl Iterator<Item = u32> {
    let words: Vec<&str> = words(comment).collect();
    let mut found = Vec::new();
    for (place, word) in words.iter().enumerate() {
        if matches!(*word, "obligation" | "obligations") {
            let numbers = words[place + 1..]
                .iter()
                .take_while(|word| **word == "and" || word.parse::<u32>().is_ok());
            found.extend(numbers.filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_in(source: &str) -> Vec<String> {
        let mut found = Citations::default();
        found.read_source(Path::new("a.rs"), source);
        found.wrong(&BTreeSet::from([1, 4]), |_, path| path == "docs/soundness.md")
    }

    #[test]
    fn an_invariant_that_is_defined_once_may_be_cited() {
        let source =
            "/// BUFFER-1. Owned.\n/// - EVENT-LEASE-1. Live.\n// SAFETY: BUFFER-1 and (EVENT-LEASE-1).\n\
                      // A failed wait (docs/soundness.md, obligation 4), in UTF-8.\nlet b = A - 1;
                      // // BUFFER-1 to\n";
        assert_eq!(wrong_in(source), [""; 0]);
    }

    #[test]
    fn invariants_defined_twice_or_nowhere_are_refused() {
        let source = "/// BUFFER-1. Owned.\n//! BUFFER-1. Again.\n";
        assert_eq!(
            wrong_in(source),
            ["a.rs:2: BUFFER-1 is defined again; first in a.rs:1"]
        );
        assert_eq!(
            wrong_in("// SAFETY: PINNED-9.\n"),
            ["a.rs:1: PINNED-9 is defined nowhere"]
        );
        assert_eq!(
            wrong_in("/// B1. Owned.\n"),
            ["a.rs:1: call B1 by a name of its own, as `BUFFER-1`"]
        );
    }

    #[test]
    fn an_invariant_without_a_name_is_refused() {
        let source = "/// # Invariants\n/// 1. Owned.\n/// - BUFFER-1. Live.\nstruct A;\n/// 1. A step, and no invariant.\n";
        assert_eq!(
            wrong_in(source),
            ["a.rs:2: call 1 by a name of its own, as `BUFFER-1`"]
        );
        for cited in ["// SAFETY: in bounds (invariant 1).", "/// Invariants 1 to 3."] {
            assert!(wrong_in(cited)[0].contains("by a name of its own"), "{cited}");
        }
        assert_eq!(wrong_in("// Invariant in `'k`.\n"), [""; 0]);
    }

    #[test]
    fn missing_obligations_and_documents_are_refused() {
        assert_eq!(
            wrong_in("// See obligations 1 and 17.\n"),
            ["a.rs:1: docs/soundness.md has no obligation 17"]
        );
        assert_eq!(wrong_in("// See NONE.md §5.\n"), ["a.rs:1: there is no NONE.md"]);
    }
}
