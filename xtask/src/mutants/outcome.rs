//! The outcome of a run of tests, read from cargo's output.

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitStatus;

/// The failures of one `cargo test`; by default no failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Failed tests, as `typed::h21_..`, and cases that compile.
    failed: BTreeSet<String>,
    /// Cases that are refused with another message.
    other_words: BTreeSet<String>,
    /// The last target, if it crashed or did not end, and how.
    died: Option<(String, String)>,
    /// The compiler's errors, if the sources do not build.
    unbuilt: Option<String>,
}

impl Outcome {
    pub(super) fn read(status: ExitStatus, log: &str) -> Self {
        let mut outcome = Self::default();
        let mut target = String::new();
        for line in log.lines() {
            let line = without_colours(line);
            let line = line.trim();
            if let Some(running) = line.strip_prefix("Running ") {
                target = target_of(running);
            } else if let Some(package) = line.strip_prefix("Doc-tests ") {
                target = format!("{package} (documentation)");
            } else if let Some(signal) = line
                .find("(signal: ")
                .filter(|_| line.starts_with("process didn't exit"))
            {
                outcome.died = Some((target.clone(), line[signal..].to_owned()));
            } else if let Some((test, result)) = line
                .strip_prefix("test ")
                .and_then(|line| line.split_once(" ... "))
            {
                match (
                    test.strip_prefix("cases/")
                        .map(|case| case.trim_end_matches(".rs")),
                    result,
                ) {
                    // Its next line says that the program compiles.
                    (Some(case), "error") => _ = outcome.failed.insert(case.to_owned()),
                    (Some(case), "mismatch") => _ = outcome.other_words.insert(case.to_owned()),
                    // This test compiles all cases; its cases were counted above.
                    (None, "FAILED") if target == "cases" => {}
                    (None, "FAILED") => _ = outcome.failed.insert(format!("{target}::{test}")),
                    _ => {}
                }
            }
        }
        let explained =
            !outcome.failed.is_empty() || !outcome.other_words.is_empty() || outcome.died.is_some();
        if status.code() == Some(124) {
            outcome.died = Some((target, "does not end".to_owned()));
        } else if !status.success() && !explained {
            let errors: Vec<&str> = log.lines().filter(|line| line.starts_with("error")).collect();
            outcome.unbuilt = Some(errors.join("\n"));
        }
        outcome
    }
}

/// A line without colours: trybuild colours its output even in files.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let start = parts.next().unwrap_or_default().to_owned();
    parts.fold(start, |text, part| {
        text + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}

/// The target's name: `typed` from `tests/typed.rs (target/debug/deps/typed-0f)`, `cuda_rt` from
/// `unittests src/lib.rs (.../cuda_rt-0f)`.
fn target_of(running: &str) -> String {
    let binary = running.rsplit('/').next().unwrap_or(running);
    binary.split('-').next().unwrap_or(binary).to_owned()
}

/// Whether a test or the build noticed a mutant.
pub(super) enum Verdict {
    Caught(Vec<String>),
    Missed(String),
}

impl Verdict {
    pub(super) fn new(refusal: Option<&str>, outcomes: Vec<Outcome>) -> Self {
        let unbuilt = outcomes.iter().find_map(|outcome| outcome.unbuilt.as_deref());
        match (refusal, unbuilt) {
            (Some(refusal), Some(said)) if said.contains(refusal) => {
                return Self::Caught(vec![format!("the build: `{refusal}`")]);
            }
            (Some(refusal), _) => return Self::Missed(format!("the build does not say `{refusal}`")),
            (None, Some(said)) => {
                return Self::Missed(format!("it does not build, so nothing was tested:\n{said}"));
            }
            (None, None) => {}
        }
        let died = |outcome: &Outcome| {
            let (target, how) = outcome.died.as_ref()?;
            Some(format!("`{target}` {how}"))
        };
        let deaths = outcomes.iter().filter_map(died);
        let failed = outcomes
            .iter()
            .flat_map(|outcome| &outcome.failed)
            .map(|test| format!("`{test}`"));
        let caught: Vec<String> = failed.chain(deaths).collect();
        if !caught.is_empty() {
            return Self::Caught(caught);
        }
        let words: Vec<&str> = outcomes
            .iter()
            .flat_map(|outcome| &outcome.other_words)
            .map(String::as_str)
            .collect();
        Self::Missed(match words.is_empty() {
            true => "every test passes".to_owned(),
            false => format!("refused still, in other words: {}", words.join(", ")),
        })
    }

    pub(super) fn is_caught(&self) -> bool {
        matches!(self, Self::Caught(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Number of tests that are named; more would be tedious to read.
        const NAMED: usize = 6;
        match self {
            Self::Missed(why) => write!(f, "MISSED: {why}"),
            Self::Caught(by) => {
                write!(f, "CAUGHT: {}", by[..by.len().min(NAMED)].join(", "))?;
                match by.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn read(code: i32, log: &str) -> Outcome {
        Outcome::read(ExitStatus::from_raw(code << 8), log)
    }

    #[test]
    fn tests_cases_crashes_and_builds_are_told_apart() {
        assert_eq!(
            read(
                0,
                "     Running tests/typed.rs (target/debug/deps/typed-0f)\ntest a ... ok\n"
            ),
            Outcome::default()
        );
        let failed = read(
            101,
            "     Running tests/typed.rs (target/debug/deps/typed-0f)\ntest a::b ... FAILED\n",
        );
        assert!(failed.failed.contains("typed::a::b") && failed.unbuilt.is_none());
        let cases = "     Running tests/cases.rs (deps/cases-0f)\ntest \x1b[0m\x1b[1mcases/h01_a.rs\x1b[0m ... \x1b[31merror\n\x1b[0mtest cases/h01_b.rs ... mismatch\n\
                     test cases/h01_c.rs ... ok\ntest cases_do_not_compile ... FAILED\n";
        let Outcome {
            failed, other_words, ..
        } = read(101, cases);
        assert_eq!(
            (failed, other_words),
            (["h01_a".to_owned()].into(), ["h01_b".to_owned()].into())
        );
        let crashed = read(
            101,
            "     Running unittests src/lib.rs (deps/cuda_rt-0f)\nerror: test failed\n  process didn't exit \
                                 successfully: `x` (signal: 11, SIGSEGV: invalid memory reference)\n",
        );
        assert_eq!(crashed.died.unwrap().0, "cuda_rt");
        assert_eq!(
            read(101, "error[E0308]: mismatched types\n").unbuilt.unwrap(),
            "error[E0308]: mismatched types"
        );
        assert_eq!(
            read(124, "     Running tests/typed.rs (deps/typed-0f)\n")
                .died
                .unwrap()
                .1,
            "does not end"
        );
    }

    #[test]
    fn a_break_is_caught_by_a_failure_only() {
        assert!(!Verdict::new(None, vec![Outcome::default()]).is_caught());
        let words = read(101, "test cases/h01_b.rs ... mismatch\n");
        assert!(!Verdict::new(None, vec![words]).is_caught());
        let unbuilt = || vec![read(101, "error[E0277]: `X` cannot be shared\n")];
        assert!(!Verdict::new(None, unbuilt()).is_caught());
        assert!(!Verdict::new(Some("sent"), unbuilt()).is_caught());
        assert!(Verdict::new(Some("shared"), unbuilt()).is_caught());
        assert!(Verdict::new(None, vec![Outcome::default(), read(101, "test a ... FAILED\n")]).is_caught());
    }
}
