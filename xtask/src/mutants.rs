//! `cargo xtask mutants`: breaks one guard at a time, and finds out which tests notice.
//!
//! If no test notices the loss of a guard, the guard may get lost. Each file of `xtask/mutants`
//! describes a mutant: it removes one guard from a copy of the sources, under the target directory,
//! and names the tests to run. If all tests pass, the mutant is a miss. First, the same tests must
//! pass on the unchanged copy. Otherwise a test that cannot pass there would count as a test that
//! noticed.

mod edit;
mod outcome;

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use edit::Mutant;
use outcome::{Outcome, Verdict};

const PAGE: &str = "docs/mutants.md";
/// Time limit of a test run: a mutant may wait for ever.
const LIMIT_S: u32 = 900;

/// Runs the mutants called `names`, or all mutants, and writes the table's row of each mutant that
/// a test caught.
pub(crate) fn run(names: &[&str]) -> Result<(), Box<dyn Error>> {
    let all = descriptions()?;
    for name in names {
        if !all.iter().any(|mutant| mutant.name == *name) {
            return Err(format!("there is no xtask/mutants/{name}.edit").into());
        }
    }
    let chosen: Vec<&Mutant> = all
        .iter()
        .filter(|mutant| names.is_empty() || names.contains(&&*mutant.name))
        .collect();
    let scratch = Scratch::new()?;

    let runs: BTreeSet<&String> = chosen.iter().flat_map(|mutant| &mutant.runs).collect();
    println!("unbroken: {} runs must pass", runs.len());
    for run in runs {
        let outcome = scratch.test(run)?;
        if outcome != Outcome::default() {
            return Err(format!("`cargo test {run}` fails with nothing broken: {outcome:?}").into());
        }
    }

    let mut missed = Vec::new();
    for mutant in chosen {
        let verdict = scratch.verdict(mutant)?;
        println!("{}: {verdict}", mutant.name);
        std::io::stdout().flush()?;
        // Before the first run there is no page.
        let old = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
        fs::write(root().join(PAGE), page(&all, (mutant, &verdict), &old))?;
        if !verdict.is_caught() {
            missed.push(&*mutant.name);
        }
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("no test notices: {}", missed.join(", ")).into()),
    }
}

/// Checks that every description still fits the sources, and that the table has each mutant. Builds
/// nothing.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let page = fs::read_to_string(root().join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let all = descriptions()?;
    // Report all mutants at once: moved code often belongs to several.
    let moved: Vec<String> = all
        .iter()
        .filter_map(|mutant| mutant.apply(root()).err())
        .collect();
    if !moved.is_empty() {
        return Err(moved.join("\n").into());
    }
    let binaries = test_binaries(root())?;
    for mutant in &all {
        if let Some(unknown) = mutant.test_names().find(|name| !binaries.contains(*name)) {
            let name = &mutant.name;
            return Err(format!("{name} runs the tests of `{unknown}`, which is no test binary").into());
        }
        if !page.contains(&format!(
            "| `{}` | {} | {} |",
            mutant.name, mutant.what, mutant.guards
        )) {
            return Err(format!("{PAGE} lacks {}: run `cargo xtask mutants`", mutant.name).into());
        }
    }
    match page.lines().filter(|line| line.starts_with("| `")).count() == all.len() {
        true => Ok(()),
        false => Err(
            format!("{PAGE} has mutants without a description in xtask/mutants: delete their rows").into(),
        ),
    }
}

/// The names of the integration tests below `folder`: `X.rs` or `X/main.rs` in a folder `tests`.
fn test_binaries(folder: &Path) -> Result<HashSet<String>, Box<dyn Error>> {
    let mut found = HashSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if !path.is_dir() || name == "target" || name.starts_with('.') {
            continue;
        }
        found.extend(test_binaries(&path)?);
        if name != "tests" {
            continue;
        }
        for entry in fs::read_dir(&path)? {
            let path = entry?.path();
            let is_test = path.join("main.rs").is_file() || path.extension().is_some_and(|it| it == "rs");
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            found.extend(stem.filter(|_| is_test).map(str::to_owned));
        }
    }
    Ok(found)
}

fn descriptions() -> Result<Vec<Mutant>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("xtask/mutants"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    files.sort();
    let parse = |file: &PathBuf| {
        let name = file
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        Ok(Mutant::parse(name, &fs::read_to_string(file)?)?)
    };
    files.iter().map(parse).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// A copy of the sources, with a target directory of its own.
struct Scratch {
    sources: PathBuf,
    target: PathBuf,
}

impl Scratch {
    /// Writes only the files that differ from the tree, because cargo builds again each file that
    /// was written.
    fn new() -> Result<Self, Box<dyn Error>> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let folder = target.join("mutants");
        let scratch = Self {
            sources: folder.join("sources"),
            target: folder.join("target"),
        };
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root())
            .output()?;
        let files: BTreeSet<&str> = std::str::from_utf8(&listed.stdout)?
            .lines()
            .filter(|file| root().join(file).is_file())
            .collect();
        if !listed.status.success() || files.is_empty() {
            return Err("`git ls-files` cannot list the files of the tree".into());
        }
        for file in &files {
            scratch.write(Path::new(file), &fs::read(root().join(file))?)?;
        }
        remove_others(&scratch.sources, &scratch.sources, &files)?;
        Ok(scratch)
    }

    fn write(&self, file: &Path, content: &[u8]) -> std::io::Result<()> {
        let to = self.sources.join(file);
        if fs::read(&to).is_ok_and(|there| there == content) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().unwrap_or(&self.sources))?;
        fs::write(to, content)
    }

    /// Breaks the copy, runs the mutant's tests, and restores the copy.
    fn verdict(&self, mutant: &Mutant) -> Result<Verdict, Box<dyn Error>> {
        let changed = mutant.apply(&self.sources)?;
        let whole: Vec<Vec<u8>> = changed
            .iter()
            .map(|(file, _)| fs::read(self.sources.join(file)))
            .collect::<Result<_, _>>()?;
        for (file, text) in &changed {
            self.write(file, text.as_bytes())?;
        }
        let outcomes: Result<Vec<Outcome>, _> = mutant.runs.iter().map(|run| self.test(run)).collect();
        for ((file, _), text) in changed.iter().zip(&whole) {
            self.write(file, text)?;
        }
        Ok(Verdict::new(mutant.refusal.as_deref(), outcomes?))
    }

    fn test(&self, arguments: &str) -> Result<Outcome, Box<dyn Error>> {
        let log = self.sources.with_file_name("last.log");
        let out = File::create(&log)?;
        // `timeout` ends its whole process group, which includes cargo and the tests.
        let status = Command::new("timeout")
            .args([
                "--kill-after=10",
                &LIMIT_S.to_string(),
                "cargo",
                "test",
                "--locked",
                "--no-fail-fast",
            ])
            .args(arguments.split(' '))
            .current_dir(&self.sources)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_TERM_COLOR", "never")
            .env_remove("TRYBUILD")
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .status()?;
        Ok(Outcome::read(status, &String::from_utf8_lossy(&fs::read(log)?)))
    }
}

/// Removes copied files that the tree no longer has.
fn remove_others(sources: &Path, folder: &Path, files: &BTreeSet<&str>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(sources, &path, files)?;
        } else if !path
            .strip_prefix(sources)
            .is_ok_and(|file| file.to_str().is_some_and(|file| files.contains(file)))
        {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The first cells of a mutant's row, which describe the mutant itself.
fn cells(mutant: &Mutant) -> String {
    format!("| `{}` | {} | {} |", mutant.name, mutant.what, mutant.guards)
}

/// The page with a new row for `ran`, if it was caught, and the old rows of the other mutants.
fn page(all: &[Mutant], (ran, verdict): (&Mutant, &Verdict), old: &str) -> String {
    let mut text = String::from(
        "# Mutants\n\n\
         Each guard below was removed from the sources, alone. The tests in its row then failed; with the\n\
         guard they pass. `xtask/mutants` has a file for each mutant, with the removed lines. `cargo xtask\n\
         mutants` runs all mutants again and writes this page. `cargo xtask mutants NAME` runs one mutant and\n\
         writes its row. `cargo xtask mutants --check` sees that the descriptions still fit the code.\n\n\
         A program of `ui-tests/cases` has noticed a mutant if it compiles. Another message for its refusal\n\
         does not count.\n\n\
         | mutant | what is broken | guard | noticed by |\n\
         |---|---|---|---|\n",
    );
    for mutant in all {
        let name = format!("| `{}` |", mutant.name);
        let row = if mutant.name == ran.name {
            verdict
                .is_caught()
                .then(|| format!("{} {verdict} |", cells(mutant)))
        } else {
            old.lines().find(|row| row.starts_with(&name)).map(str::to_owned)
        };
        text.extend(row.map(|row| row + "\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_fits_the_sources() {
        let all = descriptions().unwrap();
        assert!(all.len() > 10, "only {} were found", all.len());
        for mutant in all {
            mutant.apply(root()).unwrap();
        }
    }

    #[test]
    fn one_row_is_replaced_and_rows_without_a_description_go() {
        let text = |what: &str| format!("{what}\nguards: §5\nrun: -p a\n@@ f\n-a\n+b\n");
        let mutant = |name, what| Mutant::parse(name, &text(what)).unwrap();
        let all = [mutant("a", "new"), mutant("b", "same"), mutant("c", "never run")];
        let old = "| `a` | old | §5 | x |\n| `b` | same | §5 | y |\n| `gone` | z | §5 | z |\n";
        let rows = |verdict: &Verdict| {
            let page = page(&all, (&all[0], verdict), old);
            let rows = page.lines().filter(|line| line.starts_with("| `"));
            rows.map(str::to_owned).collect::<Vec<_>>()
        };
        let b = "| `b` | same | §5 | y |";
        assert_eq!(
            rows(&Verdict::Caught(vec!["`t`".into()])),
            ["| `a` | new | §5 | CAUGHT: `t` |", b]
        );
        assert_eq!(rows(&Verdict::Missed(String::new())), [b]);
    }
}
