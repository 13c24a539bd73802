//! Reads the tree's entries for hazards: cases, twins, tests and raw programs.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use xtask::{Header, refusals};

/// A program that must not compile.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) header: Option<Header>,
    /// The compiler's errors for this case.
    pub(super) refusals: BTreeSet<String>,
}

impl Case {
    pub(super) fn new(source: &str, stderr: &str) -> Self {
        Self {
            header: Header::of(source),
            refusals: refusals(stderr),
        }
    }

    /// The name of the twin of the case `name`: by default the same name.
    pub(super) fn twin<'a>(&'a self, name: &'a str) -> &'a str {
        let named = self.header.as_ref().and_then(|header| header.twin.as_deref());
        named.unwrap_or(name)
    }
}

/// A line of `programs.jsonl`, the checker's programs.
#[derive(Debug, Deserialize)]
pub(super) struct RawProgram {
    pub(super) id: String,
    /// Empty for a program about CUDA's own rules, or about the host alone.
    #[serde(default)]
    pub(super) hazards: Vec<String>,
    pub(super) description: String,
    pub(super) verdict: String,
}

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) cases: BTreeMap<String, Case>,
    pub(super) twins: BTreeSet<String>,
    /// Paths of files, with the test functions in them that are named after a hazard.
    pub(super) tests: BTreeSet<(String, String)>,
    pub(super) programs: Vec<RawProgram>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self, Box<dyn Error>> {
        let mut cases = BTreeMap::new();
        for path in sources(&root.join("ui-tests/cases"))? {
            let message = path.with_extension("stderr");
            let message =
                fs::read_to_string(&message).map_err(|error| format!("{}: {error}", message.display()))?;
            cases.insert(stem(&path), Case::new(&fs::read_to_string(&path)?, &message));
        }
        let twins = sources(&root.join("ui-tests/twins"))?;
        let mut tests = BTreeSet::new();
        for path in sources(&root.join("cuda-rt/tests"))? {
            let file = path.strip_prefix(root)?.to_string_lossy().into_owned();
            let source = fs::read_to_string(&path)?;
            tests.extend(named_after_hazards(&source).map(|name| (file.clone(), name.to_owned())));
        }
        let programs = fs::read_to_string(root.join("cuda-rt/tests/litmus/programs.jsonl"))?;
        Ok(Self {
            cases,
            twins: twins.iter().map(|path| stem(path)).collect(),
            tests,
            programs: programs
                .lines()
                .map(serde_json::from_str)
                .collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn cases_of<'a>(
        &'a self,
        number: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a Case, &'a Header)> {
        let cases = self.cases.iter();
        let cases = cases.filter_map(|(name, case)| Some((name, case, case.header.as_ref()?)));
        cases.filter(move |(_, _, header)| header.hazard == number)
    }

    pub(super) fn tests_of(&self, number: &str) -> impl Iterator<Item = &(String, String)> {
        let prefix = prefix(number);
        self.tests
            .iter()
            .filter(move |(_, name)| name.starts_with(&prefix))
    }

    pub(super) fn twins_named_after(&self, number: &str) -> impl Iterator<Item = &String> {
        let prefix = prefix(number);
        self.twins.iter().filter(move |name| name.starts_with(&prefix))
    }

    /// The twins of the hazard's cases, and twins with its number that have no case.
    pub(super) fn twins_of<'a>(&'a self, number: &'a str) -> BTreeSet<&'a str> {
        let of_cases = self.cases_of(number).map(|(name, case, _)| case.twin(name));
        of_cases
            .chain(self.twins_named_after(number).map(String::as_str))
            .collect()
    }

    pub(super) fn programs_of<'a>(&'a self, number: &'a str) -> impl Iterator<Item = &'a RawProgram> {
        let programs = self.programs.iter();
        programs.filter(move |program| program.hazards.iter().any(|hazard| hazard == number))
    }
}

fn prefix(number: &str) -> String {
    format!("{}_", number.to_lowercase())
}

/// The test functions of a file that are called `hNN_..`.
fn named_after_hazards(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines().map(str::trim);
    let after = lines.clone().skip(1);
    lines.zip(after).filter_map(|(before, line)| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let name = line.strip_prefix("fn ")?.split(['(', '<']).next()?;
        let (number, _) = name.strip_prefix('h')?.split_once('_')?;
        let numbered = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
        (before.starts_with("#[") && numbered).then_some(name)
    })
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The Rust files in a folder and its subfolders.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_their_names() {
        let source = "#[test]\nfn h22_forget() {}\nfn h21_helper() {}\n#[test]\nfn halves() {}\n    #[test]\n    fn h9_x() {}";
        let found: Vec<_> = named_after_hazards(source).collect();
        assert_eq!(found, ["h22_forget"]);
    }
}
