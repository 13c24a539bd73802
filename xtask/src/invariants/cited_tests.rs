//! Checks that each test that a document names exists, in the module that its path names.
//!
//! A document writes a test as cargo does, with its binary and its modules,
//! `typed::memory::slot::NAME`, or writes its name alone. A module stands for all its tests.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 2] = ["docs/soundness.md", "docs/mutants.md"];
const BINARIES: &str = "cuda-rt/tests";

/// The errors in the documents, a line for each. `files` are the tree's files.
pub(super) fn wrong(root: &Path, files: &[PathBuf]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut known = BTreeSet::new();
    for file in files.iter().filter(|file| is_source(file)) {
        known.extend(functions(&fs::read_to_string(root.join(file))?).map(str::to_owned));
        // Programs that must not compile, twins and mutants have the names of their files.
        known.extend(file.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
    }
    let read = |file: &str| fs::read_to_string(root.join(BINARIES).join(file)).ok();
    let mut wrong = Vec::new();
    for document in DOCUMENTS {
        let text = fs::read_to_string(root.join(document))?;
        for (number, line) in text.lines().enumerate() {
            for name in quoted(line) {
                if let Err(why) = look_up(&read, name, &known) {
                    wrong.push(format!("{document}:{}: `{name}`: {why}", number + 1));
                }
            }
        }
    }
    Ok(wrong)
}

fn is_source(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension == "rs" || extension == "edit")
}

/// Names of functions, and of cases from which a macro makes tests.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let (_, rest) = line.split_once("fn ")?;
        rest.split(|letter: char| !is_of_a_name(letter)).next()
    })
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
}

/// Paths of lower-case words between backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    let between = line.split('`').skip(1).step_by(2);
    between.filter(|text| text.chars().all(|letter| is_of_a_name(letter) || letter == ':'))
}

/// Whether only a test can have this name: a sentence, or an attack.
fn is_sentence(name: &str) -> bool {
    name.matches('_').count() > 3 || name.starts_with("attack_")
}

/// Returns the text of a file in the folder of tests, if the file exists.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Looks `name` up. A path that begins with a binary is looked up in its module; any other name
/// must be among the `known` names.
fn look_up(read: Read, name: &str, known: &BTreeSet<String>) -> Result<(), String> {
    let parts: Vec<&str> = name.split("::").collect();
    let last = *parts.last().expect("one part at least");
    if let [binary, modules @ .., _] = parts.as_slice() {
        let main = read(&format!("{binary}/main.rs")).or_else(|| read(&format!("{binary}.rs")));
        if let Some(main) = main {
            return look_in(read, (binary, main), modules, last);
        }
    }
    match is_sentence(last) && !known.contains(last) {
        true => Err("there is no test of that name".to_owned()),
        false => Ok(()),
    }
}

/// Follows the modules to a file, and looks there for a test or a module called `last`.
fn look_in(read: Read, binary: (&str, String), modules: &[&str], last: &str) -> Result<(), String> {
    let (mut folder, mut text) = (binary.0.to_owned(), binary.1);
    for module in modules {
        let inner = format!("{folder}/{module}");
        let file = read(&format!("{inner}.rs")).or_else(|| read(&format!("{inner}/mod.rs")));
        match file {
            Some(file) => (folder, text) = (inner, file),
            None if has_word(&text, module) => {}
            None => return Err(format!("there is no module `{module}`")),
        }
    }
    match has_word(&text, last) {
        true => Ok(()),
        false => Err(format!("its module has no `{last}`")),
    }
}

/// Whether the code, without its comments, has this word. A comment may name a test that is gone.
fn has_word(text: &str, word: &str) -> bool {
    let mut code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.any(|line| {
        line.split(|letter: char| !is_of_a_name(letter))
            .any(|part| part == word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> Option<String> {
        let text = match file {
            "typed/main.rs" => "mod memory;",
            "typed/memory/mod.rs" => "mod slot;",
            "typed/memory/slot.rs" => "// fn a_test_that_is_gone()\n#[test]\nfn a_slot_is_filled() {}",
            "fork.rs" => "mod cases { fn a_child_ends() {} }",
            _ => return None,
        };
        Some(text.to_owned())
    }

    #[test]
    fn tests_are_found_in_their_modules_only() {
        let known = BTreeSet::from(["a_slot_is_filled_by_two_streams".to_owned()]);
        let look_up = |name| look_up(&read, name, &known);
        for name in [
            "typed::memory::slot::a_slot_is_filled",
            "typed::memory::slot",
            "fork::cases::a_child_ends",
            "a_slot_is_filled_by_two_streams",
            "other_crate::tests::a_slot_is_filled_by_two_streams",
            "short_name",
        ] {
            assert_eq!(look_up(name), Ok(()), "{name}");
        }
        for name in [
            "typed::a_slot_is_filled",
            "typed::memory::slot::a_test_that_is_gone",
            "typed::stream::a_slot_is_filled",
            "fork::a_child_ends_early",
            "attack_slots",
            "other_crate::a_name_of_no_test_at_all",
        ] {
            assert!(look_up(name).is_err(), "{name}");
        }
    }

    #[test]
    fn names_between_backquotes_are_read() {
        let line = "| `a::b_c` | `LastUses::on` and `x y` | `d` |";
        assert_eq!(quoted(line).collect::<Vec<_>>(), ["a::b_c", "d"]);
    }
}
