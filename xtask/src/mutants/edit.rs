//! A mutant, as its file in `xtask/mutants` describes it.
//!
//! ```text
//! `acquire` does not wait
//! guards: obligation 2
//! run: -p cuda-handoff --test typed
//!
//! @@ runtime/src/stream/mod.rs
//!          let (bundle, _fence) = handoff.into_parts();
//! -        wait(&bundle);
//! +        // Does not wait.
//! ```
//!
//! The first line says what is broken. Under `@@ FILE` stand lines of the file: kept (` `), removed
//! (`-`) and added (`+`). The kept and removed lines must stand together in the file, and at one
//! place only. After the code has moved, fit the description to it.

use std::path::{Path, PathBuf};

/// A mutant: the sources without one guard.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// The file's name: `acquire_does_not_wait`.
    pub(super) name: String,
    /// Description of the break.
    pub(super) what: String,
    /// The guard, in words of docs/soundness.md.
    pub(super) guards: String,
    /// Runs that should notice: arguments of `cargo test`.
    pub(super) runs: Vec<String>,
    /// For a guard that the build checks instead of a test: text that the compiler must print.
    pub(super) refusal: Option<String>,
    edits: Vec<Edit>,
}

/// Consecutive lines of one file, and the lines that replace them.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    file: PathBuf,
    old: String,
    new: String,
}

impl Mutant {
    /// The names of the test binaries that it runs.
    pub(super) fn test_names(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().flat_map(|run| {
            let words = run.split_whitespace();
            let next = words.clone().skip(1);
            words
                .zip(next)
                .filter(|(word, _)| *word == "--test")
                .map(|(_, name)| name)
        })
    }

    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        let wrong = |at: usize, what: &str| format!("xtask/mutants/{name}.edit:{}: {what}", at + 1);
        let (_, what) = lines
            .next()
            .filter(|(_, line)| !line.is_empty())
            .ok_or_else(|| wrong(0, "what is broken?"))?;
        let mut mutant = Self {
            name: name.to_owned(),
            what: what.to_owned(),
            guards: String::new(),
            runs: Vec::new(),
            refusal: None,
            edits: Vec::new(),
        };
        for (at, line) in lines {
            if let Some(file) = line.strip_prefix("@@ ") {
                mutant.edits.push(Edit {
                    file: PathBuf::from(file),
                    old: String::new(),
                    new: String::new(),
                });
            } else if let Some(edit) = mutant.edits.last_mut() {
                edit.line(line).map_err(|what| wrong(at, what))?;
            } else if let Some((key, value)) = line.split_once(": ") {
                match key {
                    "guards" => value.clone_into(&mut mutant.guards),
                    "run" => mutant.runs.push(value.to_owned()),
                    "refused with" => mutant.refusal = Some(value.to_owned()),
                    _ => return Err(wrong(at, "expected `guards:`, `run:` or `refused with:`")),
                }
            } else if !line.is_empty() {
                return Err(wrong(at, "not `key: value`"));
            }
        }
        let complete = !mutant.guards.is_empty() && !mutant.runs.is_empty() && !mutant.edits.is_empty();
        if !complete || mutant.edits.iter().any(|edit| edit.old == edit.new) {
            return Err(wrong(0, "the description lacks `guards:`, `run:` or an edit"));
        }
        Ok(mutant)
    }

    /// The changed files, with their new text.
    pub(super) fn apply(&self, root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
        let mut changed: Vec<(PathBuf, String)> = Vec::new();
        for edit in &self.edits {
            let place = match changed.iter().position(|(file, _)| *file == edit.file) {
                Some(place) => place,
                None => {
                    let text = std::fs::read_to_string(root.join(&edit.file))
                        .map_err(|error| format!("{}: {}: {error}", self.name, edit.file.display()))?;
                    changed.push((edit.file.clone(), text));
                    changed.len() - 1
                }
            };
            let text = &mut changed[place].1;
            *text = edit.apply(text).map_err(|times| {
                format!(
                    "{}: these lines must stand once in {}, but stand there {times} times; has the code moved?\n{}",
                    self.name,
                    edit.file.display(),
                    edit.old
                )
            })?;
        }
        Ok(changed)
    }
}

impl Edit {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        let (old, new) = match kind {
            " " => (true, true),
            "-" => (true, false),
            "+" => (false, true),
            _ => return Err("a line of an edit begins with a space, `-` or `+`"),
        };
        for (wanted, side) in [(old, &mut self.old), (new, &mut self.new)] {
            if wanted {
                side.push_str(text);
                side.push('\n');
            }
        }
        Ok(())
    }

    /// The text with the edit. The error is the number of places with the old lines.
    fn apply(&self, text: &str) -> Result<String, usize> {
        // Matches begin at the start of a line and end at the end of a line.
        let starts: Vec<usize> = text
            .match_indices(&self.old)
            .map(|(at, _)| at)
            .filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')
            .collect();
        let [at] = starts[..] else {
            return Err(starts.len());
        };
        Ok([&text[..at], &self.new, &text[at + self.old.len()..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "what\nguards: §5\nrun: -p a\n\n@@ f.rs\n keep\n-old\n+new\n";

    #[test]
    fn lines_that_stand_once_are_replaced() {
        let mutant = Mutant::parse("name", TEXT).unwrap();
        let edit = &mutant.edits[0];
        assert_eq!(
            edit.apply("a\nkeep\nold\nb\n"),
            Ok("a\nkeep\nnew\nb\n".to_owned())
        );
        assert_eq!(edit.apply("a\nkeep\nb\n"), Err(0));
        assert_eq!(edit.apply("keep\nold\nkeep\nold\n"), Err(2));
        assert_eq!(edit.apply("not keep\nold\n"), Err(0));
    }

    #[test]
    fn a_malformed_description_is_refused() {
        for text in [
            "",
            "what\n",
            "what\nguards: §5\nrun: -p a\n",
            "what\nguards: §5\n@@ f.rs\n-old\n",
            "what\nguards: §5\nrun: -p a\n@@ f.rs\n kept\n",
            "what\nguards: §5\nrun: -p a\n@@ f.rs\n*old\n",
            "what\nguard: §5\nrun: -p a\n@@ f.rs\n-old\n",
        ] {
            assert!(Mutant::parse("name", text).is_err(), "{text:?}");
        }
    }
}
